//! Reading and writing tables on drives.
