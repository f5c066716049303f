//! Panics outside the test: they end the run and do not go by unseen.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sim::{World, fleet};

use crate::kit::*;

/// What the run of a test ends with.
fn ending<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) -> String {
    let run = catch_unwind(AssertUnwindSafe(|| fleet().nodes(1).seed(1).run(test)));
    *run.expect_err("the run went well").downcast::<String>().unwrap()
}

#[test]
fn a_panic_on_the_agenda_ends_the_run() {
    let text = ending(async |world| {
        world.set_programs("member-1", |it| panic!("no program {}", it.words[0]));
        world.create_pod("member-1", "a", "app:1");
        world.all_ready("member-1", secs(60)).await;
        let runtime = world.runtime("member-1", "node-1");
        let id = runtime.containers().await[0].id.clone();
        let _ = runtime.exec(&id, vec!["true".to_owned()]).await;
    });
    assert_eq!(text, "an entry of the agenda panicked: no program true");
}

#[test]
fn a_panic_of_a_process_ends_the_run() {
    let text = ending(async |world| {
        world.process("agent", |context| async move {
            context.world().pass(secs(1)).await;
            assert!(context.incarnation > 1, "the {}. life fails", context.incarnation);
        });
        world.pass(secs(60)).await;
    });
    assert_eq!(text, "the process agent panicked: the 1. life fails");
    let at_once = ending(async |world| {
        world.process("agent", |context| {
            assert!(context.incarnation > 1, "it does not even start");
            std::future::ready(())
        });
        world.pass(secs(60)).await;
    });
    assert_eq!(at_once, "the process agent panicked: it does not even start");
}
