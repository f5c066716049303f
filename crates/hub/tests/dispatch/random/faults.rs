//! What goes wrong meanwhile.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use sim::{
    faults::{Direction, Weather},
    seed::Seed,
};

use super::story::Story;
use crate::kit::{FLEET, HUB, agent_of};

/// Where the Assignments of a member are.
fn folder(member: &str) -> String {
    format!("{FLEET}/namespaces/fleet-{member}/assignments")
}

impl Story {
    /// Something goes wrong while a change is carried out; in the end it is mended.
    pub(super) async fn meanwhile(&mut self, draw: Seed) {
        if draw.of("rough").below(4) == 0 {
            self.stage.world.set_weather(Weather::rough());
            self.tally.note("rough weather");
        }
        self.stage.world.pass(draw.of("when").between(Duration::ZERO, Duration::from_secs(10))).await;
        let fault = draw.of("fault").below(16);
        self.stage.world.note(&format!("fault {fault}"));
        self.strike(fault, draw).await;
        self.stage.pass(30).await;
        self.stage.world.set_weather(Weather::calm());
    }

    async fn strike(&mut self, fault: u64, draw: Seed) {
        let world = self.stage.world.clone();
        let member = self.any(draw.of("victim"));
        let writes = 1 + draw.of("writes").below(12);
        let link = world.link(&agent_of(member), HUB);
        let a_while = draw.of("for").between(Duration::from_secs(5), Duration::from_secs(120));
        match fault {
            0 | 1 => {
                self.stage.hub.crash_after_writes(writes);
                self.tally.note("hub crash");
            }
            2 => {
                self.stage.agents[member].crash_after_writes(writes);
                self.tally.note("agent crash");
            }
            3 => {
                link.cut(Direction::BOTH);
                world.pass(a_while).await;
                link.heal();
                self.tally.note("cut");
            }
            4 => {
                let ways = [Direction::TO_CLIENT, Direction::TO_SERVER];
                link.cut(ways[draw.of("way").below(2) as usize]);
                world.pass(a_while).await;
                link.heal();
                self.tally.note("one way cut");
            }
            5 => {
                link.cut(Direction::BOTH);
                world.pass(Duration::from_secs(100) + a_while * 4).await;
                link.heal();
                self.tally.note("long cut");
            }
            6 => {
                let link = world.link(&agent_of(member), member);
                link.cut(Direction::BOTH);
                world.pass(a_while).await;
                link.heal();
                self.tally.note("member cut");
            }
            7 => {
                // Somebody deletes what is stored for a member (PROTO-7).
                let path = format!("{}/cloneset.shop.web", folder(member));
                if world.write(HUB, Method::DELETE, &path, &Value::Null).is_ok() {
                    self.tally.note("assignment deleted");
                }
            }
            8 => {
                let path = format!("{FLEET}/namespaces/shop/fleetbindings/cloneset.web");
                if world.write(HUB, Method::DELETE, &path, &Value::Null).is_ok() {
                    self.tally.note("binding deleted");
                }
            }
            9 | 10 => self.two_leaders(draw).await,
            11 | 12 => self.a_late_plan(draw),
            13 => {
                let cluster = if draw.of("whose").below(2) == 0 { HUB } else { member };
                world.restart_server(cluster);
                world.compact(cluster);
                self.tally.note("server restart");
            }
            _ => {}
        }
    }

    /// A leader that nobody reaches for a while is replaced, comes back and does not know it: both write, until the old one is told
    /// (section 25, item 12).
    async fn two_leaders(&mut self, draw: Seed) {
        let world = self.stage.world.clone();
        let away = draw.of("away").between(Duration::ZERO, Duration::from_secs(40));
        let back = draw.of("back").between(Duration::from_secs(1), Duration::from_secs(60));
        let (old, name) = self.stage.take_over();
        let link = world.link(&name, HUB);
        link.cut(Direction::BOTH);
        world.pass(away).await;
        link.heal();
        world.pass(back).await;
        old.stop();
        self.tally.note("two leaders");
    }

    /// What a deposed leader had on its way arrives after all: over a newer plan it is refused, and where somebody has deleted the
    /// newer one meanwhile, the member knows better (PROTO-3, PROTO-11).
    fn a_late_plan(&mut self, draw: Seed) {
        let found = self
            .older
            .len()
            .checked_sub(1)
            .map(|it| &self.older[draw.of("whose").below(it as u64 + 1) as usize]);
        let Some((member, old)) = found.cloned() else { return };
        let Some(now) = self.stage.assignment(member) else { return };
        let pair = |it: &Value| (it["spec"]["term"].as_u64(), it["spec"]["seq"].as_u64());
        if pair(&old) >= pair(&now) {
            return;
        }
        let path = format!("{}/cloneset.shop.web", folder(member));
        let late = json!({"apiVersion": now["apiVersion"], "kind": now["kind"], "metadata": now["metadata"], "spec": old["spec"]});
        let written = self.stage.world.write(HUB, Method::PUT, &path, &late);
        assert!(written.is_err(), "term_fencing: the hub has taken {old} over {now}");
        if draw.of("deleted").below(2) == 0 {
            let world = &self.stage.world;
            world.write(HUB, Method::DELETE, &path, &Value::Null).unwrap();
            let plan = json!({
                "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "Assignment",
                "metadata": {"name": "cloneset.shop.web", "labels": old["metadata"]["labels"]}, "spec": old["spec"],
            });
            world.write(HUB, Method::POST, &folder(member), &plan).unwrap();
        }
        self.tally.note("late plan");
    }
}
