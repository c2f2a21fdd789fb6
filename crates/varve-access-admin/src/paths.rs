//! Where callers find the API: its files in a data directory, and the paths of what it serves by name.

/// Name of the file in a data directory with the token for callers by TCP.
pub const TOKEN_FILE: &str = "admin.token";

/// Name of the admin API's socket in a data directory.
pub const ADMIN_SOCKET: &str = "admin.sock";

/// A volume's path in the API.
pub fn volume_path(name: &str) -> String {
    format!("/v1/volumes/{}", percent_encoded(name))
}

/// A snapshot's path in the API.
pub fn snapshot_path(name: &str) -> String {
    format!("/v1/snapshots/{}", percent_encoded(name))
}

/// A user's path in the API.
pub fn user_path(name: &str) -> String {
    format!("/v1/users/{}", percent_encoded(name))
}

/// A bucket's path in the API.
pub fn bucket_path(name: &str) -> String {
    format!("/v1/buckets/{}", percent_encoded(name))
}

/// Every byte but letters, digits and `-._~` percent-encoded, for paths and queries.
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_in_paths() {
        assert_eq!(volume_path("vm-1.a"), "/v1/volumes/vm-1.a");
        assert_eq!(volume_path("a/b ü"), "/v1/volumes/a%2Fb%20%C3%BC");
    }
}
