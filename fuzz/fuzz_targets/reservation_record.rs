//! Reservation records.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::round_trip;
use varve_logstore::format::reservation::ReservationRecord;

fuzz_target!(|bytes: &[u8]| {
    round_trip(bytes, ReservationRecord::decode, ReservationRecord::encode, ReservationRecord::LEN);
});
