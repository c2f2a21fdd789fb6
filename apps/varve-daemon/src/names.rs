//! Which cell of a pool has a volume, for the threads that take clients: the register of names, read by a thread of its
//! own.
//!
//! No cell has a name that nobody has entered, that makes no sense, or whose entry says a cell that there is not.

use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread;

use tokio::sync::oneshot;
use varve_client::{Failure, Result};
use varve_dataset::volume_of;
use varve_reactor::port::{PortReceiver, PortSender, channel};
use varve_reactor::{Loop, LoopConfig, Reactor};
use varve_register::{Name, NameKind, NameStore};
use varve_types::{CellId, ErrorKind};

use crate::engine_stack::ARRIVING;
use crate::rados::RadosMedia;

/// Questions that may wait to be read by the thread.
const WAITING_MAX: usize = 1024;

/// See the module. The thread ends with it.
pub(crate) struct NameLookup(PortSender<NameQuestion>);

struct NameQuestion {
    name: Name,
    answer: oneshot::Sender<NameAnswer>,
}

/// What the register says.
pub(crate) enum NameAnswer {
    /// That cell has the name, or may make it.
    Cell(CellId),
    /// Nobody does.
    Nobody,
    /// The entry is damaged: whichever cell has the name.
    Damaged,
    /// It cannot be read now.
    Not(String),
}

impl NameLookup {
    /// Starts the thread; none for a pool of one cell, which needs no register. Blocks.
    pub(crate) fn start(rados: &Arc<RadosMedia>) -> Result<Option<Self>> {
        if rados.spec().cell.cells == 1 {
            return Ok(None);
        }
        let rados = Arc::clone(rados);
        let (tell, told) = mpsc::channel();
        thread::Builder::new()
            .name("names".to_owned())
            .spawn(move || run(&rados, &tell))
            .map_err(|error| Failure::new(format!("start the thread of names: {error}")))?;
        let died = || Failure::new("the thread of names panicked");
        told.recv().map_err(|_| died())?.map(|questions| Some(Self(questions)))
    }

    /// The cell that has the volume of an export's name, as the register says now.
    pub(crate) async fn look(&self, export: &str) -> NameAnswer {
        let Ok(full) = volume_of(without_run(export)) else { return NameAnswer::Nobody };
        let (answer, answered) = oneshot::channel();
        let question = NameQuestion { name: Name { sort: NameKind::Volume, full }, answer };
        if self.0.send(question).is_err() {
            return NameAnswer::Not("too many names are looked for at a time".to_owned());
        }
        answered.await.unwrap_or_else(|_| NameAnswer::Not("this node ends".to_owned()))
    }
}

/// The name of a volume that arrives, as it is when it has: before that, its export names the run that fills it.
pub(super) fn without_run(export: &str) -> &str {
    let arriving = export.strip_prefix(ARRIVING).and_then(|rest| rest.split_once(':'));
    arriving.map_or(export, |(_, name)| name)
}

fn run(rados: &Arc<RadosMedia>, tell: &mpsc::Sender<Result<PortSender<NameQuestion>>>) {
    let mut event_loop = match Loop::new(LoopConfig::default()) {
        Ok(event_loop) => event_loop,
        Err(error) => {
            // Whoever waits is told; nobody else is.
            let _ = tell.send(Err(Failure::new(format!("start the loop of names: {error}"))));
            return;
        }
    };
    let (reactor, rados, tell) = (event_loop.handle(), Arc::clone(rados), tell.clone());
    event_loop.run(async move {
        let (sender, questions) = channel(&reactor, WAITING_MAX);
        let register = rados.pool().await.map(|pool| pool.register().expect("it has cells"));
        match register {
            Ok(register) => {
                let _ = tell.send(Ok(sender)); // As above.
                answer_all(&reactor, &register, questions).await;
            }
            Err(failure) => drop(tell.send(Err(failure))),
        }
    });
}

/// Until nobody can ask any more.
async fn answer_all(
    reactor: &Reactor,
    register: &Rc<dyn NameStore>,
    mut questions: PortReceiver<NameQuestion>,
) {
    let mut batch = Vec::new();
    while questions.recv_batch(&mut batch).await > 0 {
        for NameQuestion { name, answer } in batch.drain(..) {
            let register = Rc::clone(register);
            reactor.spawn(async move {
                let told = match register.read(&name).await {
                    Ok(Some(entry)) if entry.cell.0 < register.cells() => {
                        NameAnswer::Cell(entry.cell)
                    }
                    Ok(_) => NameAnswer::Nobody,
                    Err(error) if error.kind() == ErrorKind::Corrupt => NameAnswer::Damaged,
                    Err(error) => NameAnswer::Not(error.to_string()),
                };
                let _ = answer.send(told); // Who asked may have gone.
            });
        }
    }
}
