"""The names that the vectors beside this file use, with what torch 2.15.0 makes of them; the form is that of its
tables, the rest of them is left out."""
import collections

MATH_TRANSPILATIONS = collections.OrderedDict([
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
    ("cudaStream_t", "hipStream_t"),
])

CUDA_INCLUDE_MAP = collections.OrderedDict([
    ("include <cuda.h", "include <hip/hip_runtime.h"),
    ("cuda_runtime.h", "hip/hip_runtime.h"),
    ("driver_types.h", "hip/driver_types.h"),
    ("curand_kernel.h", "hiprand/hiprand_kernel.h"),
    ("cub/cub.cuh", "hipcub/hipcub.hpp"),
])

CUDA_IDENTIFIER_MAP = collections.OrderedDict([
    ("cudaMalloc", "hipMalloc"),
    ("cudaGetDevice", "hipGetDevice"),
    ("curand", "hiprand"),
    ("cuComplex", "hipComplex"),
    ("cub::", "hipcub::"),
])

CUDA_SPECIAL_MAP = collections.OrderedDict([
    ("cusparseHandle_t", "hipsparseHandle_t"),
    ("cuComplex", "hipComplex"),
])

PYTORCH_SPECIFIC_MAPPINGS = collections.OrderedDict([
    ("USE_CUDA", "USE_ROCM"),
    ("CUDA_VERSION", "TORCH_HIP_VERSION"),
])

C10_MAPPINGS = collections.OrderedDict([
    ("CUDA_VERSION", "TORCH_HIP_VERSION"),
    ("c10/cuda/CUDAStream.h", "c10/hip/HIPStream.h"),
    ("c10/cuda/impl/CUDAGuardImpl.h", "c10/hip/impl/HIPGuardImpl.h"),
    ("c10/cuda/impl/cuda_cmake_macros.h", "c10/hip/impl/hip_cmake_macros.h"),
])

CAFFE2_SPECIFIC_MAPPINGS = collections.OrderedDict([
])

CAFFE2_PATH_MAPPINGS = collections.OrderedDict([
])

CUDA_TO_HIP_MAPPINGS = [CUDA_IDENTIFIER_MAP, CUDA_TYPE_NAME_MAP, CUDA_INCLUDE_MAP, CUDA_SPECIAL_MAP, PYTORCH_SPECIFIC_MAPPINGS, C10_MAPPINGS, CAFFE2_SPECIFIC_MAPPINGS, CAFFE2_PATH_MAPPINGS]
