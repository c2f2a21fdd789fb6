//! The end of a process whose threads still run.

/// Ends the process with that exit code, and nothing else: no destructor runs and no buffer is flushed. Threads of C++
/// libraries crash when the destructors that `std::process::exit` calls take their globals away.
pub fn end_process(code: u8) -> ! {
    // SAFETY: it does not return, and touches no memory of the process.
    #[expect(unsafe_code, reason = "the standard library runs destructors when it exits")]
    unsafe {
        libc::_exit(i32::from(code))
    }
}
