//! Power for capacity and for data moved. F6, from Micron's comparison.
//!
//! The source mixes bases: "2×" W/TB is of raw TB, and its W/GBps of writes divides by a rate that was not normalised
//! (erratum X08). So each function here says what it divides by.

use crate::units::{Amount, ByteRate, Bytes, EnergyPerByte, Joules, Watts};

/// Watts for each TB of `capacity`, raw or usable as given (formula F6).
#[must_use]
pub fn watts_per_tb(power: Watts, capacity: Bytes) -> f64 {
    power.base() / capacity.tb()
}

/// Energy for data moved (formula F6): W for each GB/s is J/GB.
#[must_use]
pub fn per_byte(power: Watts, rate: ByteRate) -> EnergyPerByte {
    power / rate
}

/// Energy of a job that moves `data`, at `power` and `rate`: a faster cluster returns to idle sooner.
#[must_use]
pub fn of_job(power: Watts, rate: ByteRate, data: Bytes) -> Joules {
    per_byte(power, rate) * data
}
