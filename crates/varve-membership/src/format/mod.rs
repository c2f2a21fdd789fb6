//! Bytes of the table of nodes.

mod table;
