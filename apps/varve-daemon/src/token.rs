//! The daemon's token for callers of the admin API by TCP: read from its file, which is created, for its owner only,
//! where it is absent.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use varve_access_admin::{TOKEN_FILE, Token};
use varve_client::{Failure, Result};

use crate::config::Settings;
use crate::lock::replace_durably;
use crate::random::random_bytes;

/// The token, where the admin API is served by TCP or a file is set for it.
pub(super) fn load(settings: &Settings) -> Result<Option<Arc<Token>>> {
    if settings.admin_listen.is_none() && settings.admin_token_file.is_none() {
        return Ok(None);
    }
    let default = || settings.data.join(TOKEN_FILE);
    let path = settings.admin_token_file.clone().unwrap_or_else(default);
    let shown = path.display();
    let token = match fs::read_to_string(&path) {
        Ok(text) => Token::parse(&text).ok_or_else(|| {
            Failure::misuse(format!("{shown} holds no token of 32 to 512 printable characters"))
                .hint("remove it: the daemon creates another one")
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let token = Token::of(random_bytes()?);
            replace_durably(&path, format!("{}\n", token.text()).as_bytes()).map_err(|error| {
                Failure::new(format!("write admin.token_file {shown}: {error}"))
            })?;
            tracing::info!(path = %shown, "a token for the admin API was created: callers by TCP need it");
            token
        }
        Err(error) => {
            return Err(Failure::new(format!("read admin.token_file {shown}: {error}")));
        }
    };
    let mode = fs::metadata(&path).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o077 != 0 {
        let mode = format!("{:04o}", mode & 0o7777);
        tracing::warn!(path = %shown, mode, "other users can read the token of the admin API");
    }
    Ok(Some(Arc::new(token)))
}
