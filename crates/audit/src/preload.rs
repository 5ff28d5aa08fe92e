//! Input: the Python files of a [`crate::site::Site`]. Output: which libraries they load before anything else, read as
//! literals.
