//! The clients of volumes, as the admin API asks for them. Each connection is its thread's; all threads are asked.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use varve_access_admin::v1::{DisconnectClients, DisconnectedClients, VolumeClient, VolumeClients};
use varve_access_admin::{Error, Result};
use varve_access_nbd::NbdClient;
use varve_dataset::volume_of;
use varve_types::ErrorKind;

use crate::stack::ShardStack;
use crate::threads::ShardThreads;

/// How often it is looked whether clients that were asked to leave have left, and how many times.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const LOOKS_MAX: u32 = 200;

/// Most clients that an error names.
const NAMED_MAX: usize = 5;

/// The connections that have a volume, or a snapshot of it, open.
async fn of_volume<S: ShardStack>(
    threads: &ShardThreads<S>,
    volume: &str,
) -> Result<Vec<NbdClient>> {
    let ask = |shard| threads.ask(shard, |thread| async move { Ok(thread.nbd.clients()) });
    // All are asked before the first answer is awaited.
    let asked: Vec<_> = (0..threads.count()).map(ask).collect();
    let mut clients = Vec::new();
    for answer in asked {
        clients.extend(answer.await?);
    }
    let full = volume_of(volume).ok();
    clients.retain(|client| {
        full.is_some() && client.export.as_deref().and_then(|export| volume_of(export).ok()) == full
    });
    clients.sort_by_key(|client| client.id);
    Ok(clients)
}

/// What the API says of them.
pub(crate) async fn list<S: ShardStack>(
    threads: &ShardThreads<S>,
    volume: &str,
) -> Result<VolumeClients> {
    let clients = of_volume(threads, volume).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let described = clients.into_iter().map(|client| VolumeClient {
        id: client.id,
        address: client.peer.to_string(),
        export: client.export.unwrap_or_default(),
        read_only: client.read_only,
        connected_unix_ms: now_ms.saturating_sub(client.connected_ms),
        requests: u64::try_from(client.requests).unwrap_or(u64::MAX),
    });
    Ok(VolumeClients { clients: described.collect() })
}

/// Ends connections; returns once they have left, or do not within a while.
pub(crate) async fn disconnect<S: ShardStack>(
    threads: &ShardThreads<S>,
    volume: &str,
    which: &DisconnectClients,
) -> Result<DisconnectedClients> {
    let clients = of_volume(threads, volume).await?;
    let chosen = |client: &&NbdClient| which.client.is_none_or(|id| id == client.id);
    let ids: Vec<u64> = clients.iter().filter(chosen).map(|client| client.id).collect();
    if let (true, Some(id)) = (ids.is_empty(), which.client) {
        return Err(Error::Backend {
            kind: ErrorKind::NotFound,
            message: format!("volume `{volume}` has no client {id}"),
            hint: Some(format!("`varve volume clients {volume}` lists those it has")),
        });
    }
    for shard in 0..threads.count() {
        let ids = ids.clone();
        threads
            .ask(shard, |thread| async move {
                thread.nbd.disconnect(&ids);
                Ok(())
            })
            .await?;
    }
    for _ in 0..LOOKS_MAX {
        let left = of_volume(threads, volume).await?;
        if !left.iter().any(|client| ids.contains(&client.id)) {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(DisconnectedClients { clients: u64::try_from(ids.len()).unwrap_or(u64::MAX) })
}

/// Refuses a change of a volume or snapshot that clients have open, with their names.
pub(crate) async fn refuse_open<S: ShardStack>(
    threads: &ShardThreads<S>,
    name: &str,
) -> Result<()> {
    // Clients may have said the default namespace, or not.
    let snapshot_of = |name: &str| name.split_once('@').map(|(_, snapshot)| snapshot.to_owned());
    let volume = name.split_once('@').map_or(name, |(volume, _)| volume);
    let mut clients = of_volume(threads, volume).await?;
    clients.retain(|client| {
        let open = client.export.as_deref();
        open.is_some_and(|export| snapshot_of(export) == snapshot_of(name))
    });
    if clients.is_empty() {
        return Ok(());
    }
    let count = clients.len();
    let mut peers: Vec<String> =
        clients.iter().take(NAMED_MAX).map(|client| client.peer.to_string()).collect();
    if count > NAMED_MAX {
        peers.push("...".to_owned());
    }
    let plural = if count == 1 { "" } else { "s" };
    let what = if name.contains('@') { "snapshot" } else { "volume" };
    Err(Error::Backend {
        kind: ErrorKind::Conflict,
        message: format!(
            "{what} `{name}` is in use by {count} client{plural} ({})",
            peers.join(", ")
        ),
        hint: Some(format!(
            "disconnect where they run, or with `varve volume disconnect {volume}`"
        )),
    })
}
