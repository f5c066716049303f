//! Links that lose, delay and repeat, and processes that die.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::api::{ListParams, PostParams};
use sim::{
    faults::{Direction, Fate, Weather},
    fleet,
    seed::Chance,
};
use tokio::time::timeout;

use crate::kit::*;

#[test]
fn a_lost_answer_leaves_the_write_behind() {
    bare(async |world| {
        let maps = maps(&client(&world));
        let link = world.link("test", "member-1");
        link.next(|it| it.is_write(), Fate::LoseAnswer);
        let error = maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap_err();
        assert!(!matches!(error, kube::Error::Api(_)), "{error:?}");
        assert!(maps.get_opt("a").await.unwrap().is_some(), "it took effect");

        link.next(|it| it.is_write(), Fate::LoseRequest);
        maps.create(&PostParams::default(), &map("b", "k", "1")).await.unwrap_err();
        assert!(maps.get_opt("b").await.unwrap().is_none(), "it did not");

        link.next(|it| it.is_write(), Fate::RefuseAfter(504));
        let error = maps.create(&PostParams::default(), &map("c", "k", "1")).await.unwrap_err();
        assert_eq!(status(&error)["reason"], "Timeout");
        assert!(maps.get_opt("c").await.unwrap().is_some());

        link.next(|it| it.is_write(), Fate::Refuse(429));
        let error = maps.create(&PostParams::default(), &map("d", "k", "1")).await.unwrap_err();
        assert_eq!(status(&error)["code"], 429);
    });
}

#[test]
fn a_doubled_create_answers_that_the_name_is_taken() {
    bare(async |world| {
        let maps = maps(&client(&world));
        world.link("test", "member-1").next(|it| it.is_write(), Fate::Duplicate);
        let error = maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap_err();
        assert_eq!(status(&error)["reason"], "AlreadyExists");
        assert!(maps.get_opt("a").await.unwrap().is_some());
    });
}

#[test]
fn a_cut_link_is_silent_in_the_direction_that_is_cut() {
    bare(async |world| {
        let maps = maps(&client(&world));
        let link = world.link("test", "member-1");
        link.cut(Direction::TO_SERVER);
        let params = PostParams::default();
        let object = map("a", "k", "1");
        assert!(timeout(secs(60), maps.create(&params, &object)).await.is_err());
        assert_eq!(world.cluster("member-1").server().count("configmaps"), 0);

        link.cut(Direction::TO_CLIENT);
        assert!(timeout(secs(60), maps.create(&params, &object)).await.is_err());
        assert_eq!(world.cluster("member-1").server().count("configmaps"), 1);

        link.heal();
        assert!(maps.get_opt("a").await.unwrap().is_some());
    });
}

#[test]
fn a_read_that_may_be_old_is_old() {
    bare(async |world| {
        let maps = maps(&client(&world));
        maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        world.pass(secs(10)).await;
        maps.create(&PostParams::default(), &map("b", "k", "1")).await.unwrap();
        let old = Weather { stale: (Chance::ALWAYS, secs(0)), ..Weather::calm() };
        world.link("test", "member-1").set_weather(old);
        world.link("test", "member-1").next(|_| true, Fate::Stale(secs(5)));
        let any = ListParams::default().match_any();
        assert_eq!(maps.list(&any).await.unwrap().items.len(), 1, "b is younger than five seconds");
        assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 2);
    });
}

#[test]
fn a_process_dies_right_after_its_kth_write_and_starts_again_with_nothing() {
    bare(async |world| {
        let lives: Arc<Mutex<Vec<u64>>> = Arc::default();
        let seen = lives.clone();
        let process = world.process("writer", move |context| {
            let seen = seen.clone();
            async move {
                seen.lock().unwrap().push(context.incarnation);
                let maps = maps(&context.client("member-1"));
                for index in 0..10 {
                    let name = format!("m{index}");
                    if maps.get_opt(&name).await.unwrap().is_none() {
                        maps.create(&PostParams::default(), &map(&name, "k", "1")).await.unwrap();
                    }
                }
                std::future::pending::<()>().await;
            }
        });
        process.crash_after_writes(4);
        world.pass(secs(1)).await;
        assert_eq!(world.cluster("member-1").server().count("configmaps"), 4, "the fourth took effect");
        world.pass(secs(30)).await;
        assert_eq!(world.cluster("member-1").server().count("configmaps"), 10);
        assert_eq!(*lives.lock().unwrap(), [1, 2]);
        assert_eq!(process.writes(), 10);
    });
}

#[test]
fn clocks_of_clusters_can_be_wrong() {
    fleet().members(2).nodes(0).run(async |world| {
        world.cluster("member-2").server().clock().jump(jiff::SignedDuration::from_hours(3));
        let time = |cluster: &str| {
            let body =
                serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
            let path = "/api/v1/namespaces/default/configmaps";
            let made = world.write(cluster, http::Method::POST, path, &body).unwrap();
            made["metadata"]["creationTimestamp"].as_str().unwrap().to_owned()
        };
        assert_eq!(time("member-1"), "2030-01-01T00:00:00Z");
        assert_eq!(time("member-2"), "2030-01-01T03:00:00Z");
    });
}

#[test]
fn a_broken_invariant_ends_the_run_and_names_itself() {
    let outcome = std::panic::catch_unwind(|| {
        bare(async |world| {
            world.invariant("at most two maps", |world| {
                let count = world.cluster("member-1").server().count("configmaps");
                if count <= 2 { Ok(()) } else { Err(format!("there are {count}")) }
            });
            let maps = maps(&client(&world));
            for name in ["a", "b", "c", "d"] {
                maps.create(&PostParams::default(), &map(name, "k", "1")).await.unwrap();
            }
            world.pass(Duration::from_secs(3600)).await;
        });
    });
    let message = outcome.unwrap_err();
    let message = message.downcast_ref::<String>().unwrap();
    assert!(message.contains("at most two maps") && message.contains("there are 3"), "{message}");
}
