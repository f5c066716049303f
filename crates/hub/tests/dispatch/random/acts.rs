//! What users do.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use sim::{nodes::ImageBehaviour, seed::Seed};

use super::{story::Story, wish::Amount};
use crate::kit::{FLEET, HUB, LATE, all_pods};

impl Story {
    pub(super) async fn scale(&mut self, draw: Seed) {
        self.scale_to(draw.of("to").below(12) as usize, draw).await;
    }

    async fn scale_to(&mut self, replicas: usize, draw: Seed) {
        let before = std::mem::replace(&mut self.wish.replicas, replicas);
        self.promises.set(Some(self.bounds(before, None)));
        self.wish.apply(&self.stage);
        self.meanwhile(draw).await;
        self.rests().await;
        self.tally.note("scale");
    }

    pub(super) async fn release(&mut self, draw: Seed) {
        self.wish.draw_partition(draw.of("partition"));
        self.begin_release(draw);
        self.meanwhile(draw).await;
        self.rests().await;
        self.finish_release(draw).await;
        self.tally.note("release");
    }

    /// A new image, for some of the pods.
    fn begin_release(&mut self, draw: Seed) {
        self.wish.image += 1;
        self.wish.draw_pace(draw.of("pace"));
        if [self.wish.unavailable, self.wish.surge, self.wish.partition].iter().any(|it| it.is_percent()) {
            self.tally.note("numbers in percent");
        }
        let (image, replicas) = (self.wish.name(), self.wish.replicas);
        self.promises.set(Some(self.bounds(replicas, Some((image, replicas - self.wish.old())))));
        self.wish.apply(&self.stage);
    }

    /// The image, for all of them.
    async fn finish_release(&mut self, draw: Seed) {
        let has_old = self.wish.old() > 0;
        self.wish.partition = Amount::Pods(0);
        self.promises.set(Some(self.bounds(self.wish.replicas, None)));
        self.wish.apply(&self.stage);
        if has_old {
            self.meanwhile(draw.of("rest")).await;
        }
        self.rests().await;
    }

    /// A release that is replaced by another one before it is over.
    pub(super) async fn supersede(&mut self, draw: Seed) {
        self.promises.set(Some(self.bounds(self.wish.replicas, None)));
        self.wish.image += 1;
        self.wish.apply(&self.stage);
        self.stage.world.pass(draw.of("in between").between(Duration::ZERO, Duration::from_secs(20))).await;
        self.wish.image += 1;
        self.wish.apply(&self.stage);
        self.meanwhile(draw).await;
        self.rests().await;
        self.tally.note("supersede");
    }

    /// A release whose pods never become ready, and then one that mends it.
    pub(super) async fn release_what_is_broken(&mut self, draw: Seed) {
        self.promises.set(Some(self.bounds(self.wish.replicas, None)));
        self.wish.image += 1;
        for member in self.stage.members() {
            let behaviour = ImageBehaviour { never_ready: true, ..ImageBehaviour::default() };
            self.stage.world.set_image(member, &self.wish.name(), behaviour);
        }
        self.wish.apply(&self.stage);
        self.meanwhile(draw).await;
        self.wish.image += 1;
        self.wish.apply(&self.stage);
        self.meanwhile(draw.of("mended")).await;
        self.rests().await;
        self.tally.note("broken release");
    }

    pub(super) async fn drain(&mut self, draw: Seed) {
        let before = std::mem::replace(&mut self.may_move, true);
        let member = self.any(draw.of("member"));
        self.promises.set(Some(self.bounds(self.wish.replicas, None)));
        self.stage.change_member(member, &json!({"drain": true}));
        self.meanwhile(draw).await;
        self.empties(member).await;
        self.rests().await;
        self.stage.change_member(member, &json!({"drain": false}));
        self.rests().await;
        self.may_move = before;
        self.tally.note("drain");
    }

    async fn empties(&self, member: &'static str) {
        self.until(&format!("{member} is empty"), |it| {
            !all_pods(&it.world).iter().any(|it| it.cluster == member)
        })
        .await;
    }

    /// A cluster joins in the middle of a release, and gets replicas: as many pods as before are new (section 25, item 7).
    pub(super) async fn join(&mut self, draw: Seed) {
        if self.wish.replicas == 0 {
            self.scale_to(4, draw.of("some")).await;
        }
        self.wish.draw_partition(draw.of("partition"));
        if self.wish.old() == 0 {
            // A release that is over has no old pods to make.
            self.wish.partition = Amount::Pods(1);
        }
        self.begin_release(draw);
        self.meanwhile(draw).await;
        self.rests().await;
        let updated = self.wish.replicas - self.wish.old();
        if !self.stage.agents.contains_key(LATE) {
            self.stage.welcome();
            self.until("the late member is Ready", |it| it.state(LATE) == "Ready").await;
            self.tally.note("join");
        }
        // What is added is old: as many pods more, and as many more that stay old.
        let (before, more) = (self.wish.replicas, 1 + draw.of("more").below(6) as usize);
        let old = self.wish.old() + more;
        self.wish.replicas += more;
        self.wish.partition = Amount::Pods(old);
        self.promises.set(Some(self.bounds(before, Some((self.wish.name(), updated)))));
        self.wish.apply(&self.stage);
        self.meanwhile(draw.of("growing")).await;
        self.rests().await;
        self.finish_release(draw).await;
    }

    /// Other weights: replicas move.
    pub(super) async fn weigh(&mut self, draw: Seed) {
        self.may_move = true;
        let weights = self.stage.members().into_iter().map(|it| {
            let weight = 1 + draw.of("weight").of(it).below(5);
            json!({"clusters": {"names": [it]}, "weight": weight})
        });
        self.policy["replicas"] = json!({"weights": weights.collect::<Vec<_>>()});
        self.promises.set(Some(self.bounds(self.wish.replicas, None)));
        self.place();
        self.meanwhile(draw).await;
        self.settles().await;
        self.tally.note("weights");
    }

    /// The policy leaves a member out, which loses its object, and takes it in again.
    pub(super) async fn exclude(&mut self, draw: Seed) {
        self.may_move = true;
        let member = self.any(draw.of("member"));
        self.policy["clusters"] = json!({"exclude": [member]});
        self.promises.set(Some(self.bounds(self.wish.replicas, None)));
        self.place();
        self.meanwhile(draw).await;
        self.empties(member).await;
        self.rests().await;
        if draw.of("wait").below(2) == 0 {
            self.until(&format!("{member} has no share"), |it| it.assignment(member).is_none()).await;
        }
        self.policy["clusters"] = json!({});
        self.place();
        self.meanwhile(draw.of("back")).await;
        self.settles().await;
        self.tally.note("exclude");
    }

    /// Somebody deletes the policy: nothing changes until there is one again (DEL-5).
    pub(super) async fn suspend(&mut self, draw: Seed) {
        let replicas = self.wish.replicas;
        let path = format!("{FLEET}/namespaces/shop/placementpolicies/all");
        self.promises.set(Some(self.bounds(replicas, None)));
        self.stage.world.write(HUB, Method::DELETE, &path, &Value::Null).unwrap();
        self.meanwhile(draw).await;
        let before = self.names();
        self.stage.pass(60).await;
        assert_eq!(self.names(), before, "nobody places it");
        // A policy that was made again is another one, and has its own say about where replicas are.
        self.may_move = true;
        self.promises.set(Some(self.bounds(replicas, None)));
        self.place();
        self.meanwhile(draw.of("back")).await;
        self.settles().await;
        self.tally.note("suspend");
    }

    /// A release that is paused updates nothing until it goes on (CS-2).
    pub(super) async fn pause(&mut self, draw: Seed) {
        self.wish.image += 1;
        self.wish.paused = true;
        self.promises.set(Some(self.bounds(self.wish.replicas, Some((self.wish.name(), 0)))));
        self.wish.apply(&self.stage);
        self.meanwhile(draw).await;
        self.stage.pass(60).await;
        self.wish.paused = false;
        self.promises.set(Some(self.bounds(self.wish.replicas, None)));
        self.wish.apply(&self.stage);
        self.meanwhile(draw.of("on")).await;
        self.rests().await;
        self.tally.note("pause");
    }

    /// Names pods to delete, with or without a scale-down by as many.
    pub(super) async fn delete_pods(&mut self, draw: Seed) {
        let before = self.wish.replicas;
        let mut pods = all_pods(&self.stage.world);
        pods.sort_by_key(|it| draw.of("order").of(&it.name).bits());
        pods.truncate(1 + draw.of("count").below(2) as usize);
        let is_full = draw.of("full").below(2) == 0;
        self.wish.named = pods
            .iter()
            .map(|it| if is_full { format!("{}/{}", it.cluster, it.name) } else { it.name.clone() })
            .collect();
        if draw.of("fewer").below(2) == 0 {
            self.wish.replicas -= pods.len();
        }
        self.promises.set(Some(self.bounds(before, None)));
        self.wish.apply(&self.stage);
        self.meanwhile(draw).await;
        self.until("the named pods are gone", |it| {
            !all_pods(&it.world).iter().any(|it| pods.iter().any(|pod| pod.name == it.name))
        })
        .await;
        self.rests().await;
        self.wish.named.clear();
        self.tally.note("delete pods");
    }

    /// The names of all pods.
    fn names(&self) -> Vec<String> {
        let mut pods: Vec<String> = all_pods(&self.stage.world).into_iter().map(|it| it.name).collect();
        pods.sort_unstable();
        pods
    }

    /// Waits until replicas are where the policy wants them, and all rests.
    async fn settles(&mut self) {
        self.until("replicas are where the policy wants them", |it| {
            let rebalance = &it.binding()["spec"]["ledger"]["rebalance"];
            let policy = it.read(HUB, &format!("{FLEET}/namespaces/shop/placementpolicies/all"));
            let generation = policy.unwrap_or_default()["metadata"]["generation"].clone();
            rebalance["policyGeneration"] == generation && rebalance["asked"] != true
        })
        .await;
        self.rests().await;
        self.may_move = false;
    }

    /// One of the members.
    pub(super) fn any(&self, draw: Seed) -> &'static str {
        let members = self.stage.members();
        members[draw.below(members.len() as u64) as usize]
    }
}
