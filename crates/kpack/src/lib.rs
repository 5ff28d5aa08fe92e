//! kpack
