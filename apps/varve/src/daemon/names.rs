//! Which cell of a pool has a volume, for the threads that take clients: the register of names, read by a thread of its own.
//!
//! No cell has a name that nobody has entered, or that makes no sense.

use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread;

use tokio::sync::oneshot;
use varve_dataset::volume_of;
use varve_reactor::port::{PortReceiver, PortSender, channel};
use varve_reactor::{Loop, LoopConfig, Reactor};
use varve_register::{Name, NameStore, Sort};
use varve_types::CellId;

use crate::daemon::rados::RadosMedia;
use crate::failure::{Failure, Result};

/// Questions that may wait to be read by the thread.
const WAITING_MAX: usize = 1024;

/// See the module. The thread ends with it.
pub(crate) struct Names(PortSender<Question>);

struct Question {
    name: Name,
    answer: oneshot::Sender<std::result::Result<Option<CellId>, String>>,
}

impl Names {
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
    ///
    /// # Errors
    /// Why the register cannot be read.
    pub(crate) async fn cell_of(
        &self,
        export: &str,
    ) -> std::result::Result<Option<CellId>, String> {
        let Ok(full) = volume_of(export) else { return Ok(None) };
        let (answer, answered) = oneshot::channel();
        let question = Question { name: Name { sort: Sort::Volume, full }, answer };
        self.0.send(question).map_err(|_| "too many names are looked for at a time".to_owned())?;
        answered.await.unwrap_or_else(|_| Err("this node ends".to_owned()))
    }
}

fn run(rados: &Arc<RadosMedia>, tell: &mpsc::Sender<Result<PortSender<Question>>>) {
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
    mut questions: PortReceiver<Question>,
) {
    let mut batch = Vec::new();
    while questions.recv_batch(&mut batch).await > 0 {
        for Question { name, answer } in batch.drain(..) {
            let register = Rc::clone(register);
            reactor.spawn(async move {
                let entry = register.read(&name).await;
                let cell = entry.map(|entry| entry.map(|entry| entry.cell));
                let _ = answer.send(cell.map_err(|error| error.to_string())); // Who asked may have gone.
            });
        }
    }
}
