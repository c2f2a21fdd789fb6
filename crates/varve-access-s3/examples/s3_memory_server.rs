//! Serves S3 from memory, for conformance suites: `s3_memory_server USERS [ADDRESS] [DAY_SECONDS]`.
//!
//! `USERS` is a JSON list of `{"id", "name", "email", "access_key", "secret_key", "admin"}`. Prints the address it
//! listens on, and ends with its standard input.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use varve_access_s3::{Clients, Gateway, MasterKey, Options};
use varve_object::{MemoryStore, User};

#[derive(Deserialize)]
struct Given {
    id: String,
    name: String,
    email: String,
    access_key: String,
    secret_key: String,
    #[serde(default)]
    admin: bool,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(std::io::stderr)
        .init();
    let mut arguments = std::env::args().skip(1);
    let users: Vec<Given> =
        serde_json::from_slice(&std::fs::read(arguments.next().ok_or("no file of users")?)?)?;
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let mut options = Options { region: "varve".to_owned(), ..Options::default() };
    if let Some(seconds) = arguments.next() {
        options.day = Duration::from_secs(seconds.parse()?);
    }
    let opened =
        Gateway::open(Arc::new(MemoryStore::default()), MasterKey::of([7; 32]), options).await?;
    let gateway = opened.gateway;
    for given in users {
        let user = User {
            id: given.id.clone(),
            name: given.name,
            email: given.email,
            admin: given.admin,
            ..User::default()
        };
        gateway.users().create(user).await?;
        gateway.users().create_key(&given.id, Some((given.access_key, given.secret_key))).await?;
    }
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("{}", listener.local_addr()?);
    let (end, stop) = tokio::sync::watch::channel(false);
    tokio::spawn({
        let gateway = gateway.clone();
        async move { gateway.run_lifecycle().await }
    });
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = end.send(true);
    });
    gateway.serve(Clients { listener: Some(listener), accepted: None }, None, stop).await;
    Ok(())
}
