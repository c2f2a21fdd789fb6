//! Event loops over io_uring, and hints for systems that do not allow it: container runtimes block io_uring by default.

use std::io;

use rustix::io::Errno;
use varve_client::{Failure, Result};
use varve_reactor::{Loop, LoopConfig};

/// A loop for the calling thread. A failure is the environment's, never the pool's: exit code 2.
pub fn start() -> Result<Loop> {
    Loop::new(LoopConfig::default()).map_err(|error| failure(&error))
}

/// Explains why a loop cannot start.
pub(crate) fn failure(error: &io::Error) -> Failure {
    match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::NOSYS | Errno::ACCESS) => {
            Failure::misuse(format!("io_uring is not allowed here: {error}")).hint(
                "in a container, allow io_uring_setup, io_uring_enter and io_uring_register in its seccomp profile (Docker: --security-opt seccomp=FILE); \
                 on a host, check sysctl kernel.io_uring_disabled",
            )
        }
        Some(Errno::NOMEM) => Failure::misuse(format!("io_uring cannot lock memory: {error}"))
            .hint("raise the limit of locked memory (ulimit -l, LimitMEMLOCK=)"),
        Some(Errno::MFILE | Errno::NFILE) => {
            Failure::misuse(format!("io_uring cannot open a file descriptor: {error}"))
                .hint("raise the limit of open files (ulimit -n, LimitNOFILE=)")
        }
        _ => Failure::new(format!("start an event loop: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_system_call_is_blamed_on_the_environment() {
        for code in [Errno::PERM, Errno::NOSYS] {
            let blocked = failure(&code.into());
            assert_eq!(blocked.exit_code(), 2);
            assert!(blocked.to_string().contains("io_uring is not allowed here"), "{blocked}");
            assert!(blocked.to_string().contains("seccomp"), "{blocked}");
        }
        let memory = failure(&Errno::NOMEM.into());
        assert!(memory.to_string().contains("ulimit -l"), "{memory}");
    }
}
