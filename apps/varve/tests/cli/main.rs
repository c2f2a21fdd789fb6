//! The command line as its users see it: one module a command, against the built binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod daemon;
mod nbd;
mod rig;
mod stored;

mod bench_list;
mod bench_run;
mod bench_show;
mod bucket_create;
mod bucket_delete;
mod bucket_list;
mod bucket_log;
mod bucket_quota;
mod bucket_show;
mod check;
mod completions;
mod df;
mod dump;
mod help;
mod plan;
mod pool_show;
mod serve;
mod status;
mod user_create;
mod user_delete;
mod user_key;
mod user_list;
mod user_policy;
mod user_quota;
mod user_show;
mod volume_clone;
mod volume_create;
mod volume_delete;
mod volume_diff;
mod volume_export;
mod volume_flatten;
mod volume_import;
mod volume_list;
mod volume_resize;
mod volume_set;
mod volume_show;
mod volume_snapshot;
