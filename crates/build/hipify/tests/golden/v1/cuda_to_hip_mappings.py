"""The names that the vectors beside this file use, with what torch 2.6.0 makes of them; the form is that of its
tables, the rest of them is left out."""
import collections

MATH_TRANSPILATIONS = collections.OrderedDict([
    ("std::max", "::max"),
    ("std::min", "::min"),
    ("std::ceil", "::ceil"),
    ("std::floor", "::floor"),
    ("std::exp", "::exp"),
    ("std::log", "::log"),
    ("std::pow", "::pow"),
    ("std::fabs", "::fabs"),
    ("std::fmod", "::fmod"),
    ("std::remainder", "::remainder"),
    ("std::frexp", "::frexp"),
])

CUDA_TYPE_NAME_MAP = collections.OrderedDict([
    ("cudaStream_t", ("hipStream_t", API_RUNTIME)),
])

CUDA_INCLUDE_MAP = collections.OrderedDict([
    ("include <cuda.h", ("include <hip/hip_runtime.h", API_RUNTIME)),
    ("cuda_runtime.h", ("hip/hip_runtime.h", API_RUNTIME)),
    ("driver_types.h", ("hip/driver_types.h", API_RUNTIME)),
    ("curand_kernel.h", ("hiprand/hiprand_kernel.h", API_RUNTIME)),
    ("cub/cub.cuh", ("hipcub/hipcub.hpp", API_RUNTIME)),
])

CUDA_IDENTIFIER_MAP = collections.OrderedDict([
    ("cudaMalloc", ("hipMalloc", API_RUNTIME)),
    ("cudaGetDevice", ("hipGetDevice", API_RUNTIME)),
    ("curand", ("hiprand", API_RUNTIME)),
    ("cuComplex", ("hipComplex", API_RUNTIME)),
    ("cub::", ("hipcub::", API_RUNTIME)),
])

CUDA_SPECIAL_MAP = collections.OrderedDict([
    ("cusparseHandle_t", ("hipsparseHandle_t", API_SPECIAL)),
    ("cuComplex", ("hipComplex", API_SPECIAL)),
])

PYTORCH_SPECIFIC_MAPPINGS = collections.OrderedDict([
    ("USE_CUDA", ("USE_ROCM", API_PYTORCH)),
    ("CUDA_VERSION", ("TORCH_HIP_VERSION", API_PYTORCH)),
    ("CUDAGuard", ("HIPGuardMasqueradingAsCUDA", API_PYTORCH)),
    ("cuda::CUDAStream", ("hip::HIPStreamMasqueradingAsCUDA", API_PYTORCH)),
    ("CUDAStream", ("HIPStreamMasqueradingAsCUDA", API_PYTORCH)),
    ("cuda::getCurrentCUDAStream", ("hip::getCurrentHIPStreamMasqueradingAsCUDA", API_PYTORCH)),
    ("getCurrentCUDAStream", ("getCurrentHIPStreamMasqueradingAsCUDA", API_PYTORCH)),
    ("c10/cuda/CUDAStream.h", ("ATen/hip/impl/HIPStreamMasqueradingAsCUDA.h", API_PYTORCH)),
])

CAFFE2_SPECIFIC_MAPPINGS = collections.OrderedDict([
    ("/hip/", ("/hip/", API_CAFFE2)),
    ("/context_gpu", ("/hip/context_gpu", API_CAFFE2)),
    ("CUDAContext", ("HIPContext", API_CAFFE2)),
    ("CUDA_KERNEL_ASSERT", ("CUDA_KERNEL_ASSERT", API_CAFFE2)),
    ("CUDA_VERSION", ("TORCH_HIP_VERSION", API_CAFFE2)),
    ("CUDA", ("HIP", API_CAFFE2)),
    ("Cuda", ("Hip", API_CAFFE2)),
    ("cuda_", ("hip_", API_CAFFE2)),
    ("_cuda", ("_hip", API_CAFFE2)),
    ("cudnn", ("miopen", API_CAFFE2)),
])

C10_MAPPINGS = collections.OrderedDict([
    ("CUDA_VERSION", ("TORCH_HIP_VERSION", API_PYTORCH)),
    ("c10/cuda/CUDAStream.h", ("c10/hip/HIPStream.h", API_RUNTIME)),
    ("c10/cuda/impl/CUDAGuardImpl.h", ("c10/hip/impl/HIPGuardImpl.h", API_RUNTIME)),
    ("c10/cuda/impl/cuda_cmake_macros.h", ("c10/hip/impl/hip_cmake_macros.h", API_RUNTIME)),
    ("C10_CUDA_CHECK", ("C10_HIP_CHECK", API_RUNTIME)),
    ("cuda::CUDAStream", ("hip::HIPStream", API_RUNTIME)),
    ("CUDAStream", ("HIPStream", API_RUNTIME)),
    ("cuda::getCurrentCUDAStream", ("hip::getCurrentHIPStream", API_RUNTIME)),
    ("getCurrentCUDAStream", ("getCurrentHIPStream", API_RUNTIME)),
])

CUDA_TO_HIP_MAPPINGS = [CUDA_IDENTIFIER_MAP, CUDA_TYPE_NAME_MAP, CUDA_INCLUDE_MAP, CUDA_SPECIAL_MAP, C10_MAPPINGS, PYTORCH_SPECIFIC_MAPPINGS, CAFFE2_SPECIFIC_MAPPINGS]
