//! Amounts with their units as types (UNITS-1): what may be added, and which products have a meaning.

mod amount;
mod product;
mod text;

pub use amount::{
    Amount, BitRate, ByteRate, Bytes, EnergyPerByte, Joules, Money, OpRate, Seconds, Share, Watts,
};
pub use text::{parse, short, times};
