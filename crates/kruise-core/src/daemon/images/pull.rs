//! One download: attempts, waits between them, and what is reported.

use std::time::Duration;

use jiff::Timestamp;

use super::{credentials::Credential, plan::Job, status::phases};
use crate::{
    api::node_image::ImageTagStatus,
    backoff::Doubling,
    daemon::cri::{self, Image, Images, Pull},
    image::{Reference, join, split},
    runtime::clock::{Clock, whole_seconds},
};

/// How long after a failed attempt the next one begins.
const RETRY: Doubling = Doubling { first: Duration::from_secs(1), ceiling: Duration::from_secs(30) };

/// How long the runtime may take to list its images.
const LIST: Duration = Duration::from_secs(30);

/// Tells the runtime, and whoever reads its logs, who asks.
const PULLING_BY: (&str, &str) = ("apps.kruise.io/pulling-image-by", "kruise-daemon");

/// Why there is no further attempt.
const DEADLINE_PASSED: &str = "pulling exceeds the activeDeadlineSeconds";

/// How a download is reported before it begins.
pub fn waiting(job: &Job) -> ImageTagStatus {
    ImageTagStatus {
        tag: job.key.tag.clone(),
        version: job.version,
        phase: phases::WAITING.into(),
        ..ImageTagStatus::default()
    }
}

/// How a download is reported while it is under way. Large images give no other sign for minutes.
pub fn pulling(job: &Job, now: Timestamp) -> ImageTagStatus {
    ImageTagStatus { phase: phases::PULLING.into(), start_time: Some(whole_seconds(now)), ..waiting(job) }
}

/// Downloads and gives the final report; `begun` is what [`pulling`] reported. Dropping the future gives up.
pub async fn run(
    job: &Job,
    begun: ImageTagStatus,
    credentials: &[Credential],
    images: &dyn Images,
    clock: &Clock,
) -> ImageTagStatus {
    let result = attempts(job, credentials, images, clock).await;
    let completion_time = Some(whole_seconds(clock.now()));
    match result {
        Ok(()) => {
            // An image that cannot be looked at is there all the same.
            let found = images.images(LIST).await.unwrap_or_default();
            let found = found.iter().find(|it| is_image(it, &job.key.image, &job.key.tag));
            ImageTagStatus {
                phase: phases::SUCCEEDED.into(),
                progress: 100,
                completion_time,
                image_id: found.map(|it| format!("{}@{}", job.key.image, it.id)).unwrap_or_default(),
                ..begun
            }
        }
        Err(message) => ImageTagStatus { phase: phases::FAILED.into(), completion_time, message, ..begun },
    }
}

/// Whether the runtime's `image` is `name` with this tag or digest.
pub fn is_image(image: &Image, name: &str, tag: &str) -> bool {
    image
        .repo_tags
        .iter()
        .chain(&image.repo_digests)
        .any(|it| split(it).is_ok_and(|(its_name, its_tag)| its_name == name && its_tag == tag))
}

async fn attempts(
    job: &Job,
    credentials: &[Credential],
    images: &dyn Images,
    clock: &Clock,
) -> Result<(), String> {
    let begun = clock.instant();
    let mut failed = String::new();
    for attempt in 0..job.attempts {
        if attempt > 0 {
            tokio::time::sleep(RETRY.delay(attempt)).await;
        }
        let Some(budget) = budget(job, clock.since(begun)) else { return Err(DEADLINE_PASSED.into()) };
        match one_attempt(job, credentials, images, budget).await {
            Ok(()) => return Ok(()),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// How long the next attempt may take; none if the deadline has passed.
fn budget(job: &Job, passed: Duration) -> Option<Duration> {
    match job.deadline {
        None => Some(job.timeout),
        Some(deadline) => {
            deadline.checked_sub(passed).filter(|it| !it.is_zero()).map(|it| it.min(job.timeout))
        }
    }
}

async fn one_attempt(
    job: &Job,
    credentials: &[Credential],
    images: &dyn Images,
    budget: Duration,
) -> Result<(), String> {
    let attempt = async {
        if job.only_if_missing {
            let there = images.images(LIST).await.map_err(|it| it.to_string())?;
            if there.iter().any(|it| is_image(it, &job.key.image, &job.key.tag)) {
                return Ok(());
            }
        }
        with_each_credential(job, credentials, images, budget).await
    };
    match tokio::time::timeout(budget, attempt).await {
        Ok(result) => result,
        Err(_) => Err(canceled(job, budget)),
    }
}

/// Tries each credential in turn; anonymously only if there is none.
async fn with_each_credential(
    job: &Job,
    credentials: &[Credential],
    images: &dyn Images,
    budget: Duration,
) -> Result<(), String> {
    let reference = Reference::parse(&join(&job.key.image, &job.key.tag)).map_err(|it| it.to_string())?;
    let mut annotations = job.sandbox.annotations.clone();
    annotations.insert(PULLING_BY.0.into(), PULLING_BY.1.into());
    let anonymous = [None];
    let tried: Vec<Option<&Credential>> = match credentials {
        [] => anonymous.to_vec(),
        some => some.iter().map(Some).collect(),
    };
    let mut errors = Vec::new();
    for credential in tried {
        let pull = Pull {
            // The full reference: CRI-O does not know what a short one means.
            image: join(&reference.repository(), &reference.tag),
            credential: credential.cloned(),
            labels: job.sandbox.labels.clone(),
            annotations: annotations.clone(),
            timeout: budget,
        };
        match images.pull(pull).await {
            Ok(()) => return Ok(()),
            Err(cri::Error::Timeout { .. }) => return Err(canceled(job, budget)),
            Err(error) => {
                let text = error.to_string();
                let text = credentials.iter().fold(text, |text, it| it.scrub(&text));
                if !errors.contains(&text) {
                    errors.push(text);
                }
            }
        }
    }
    Err(errors.join(", "))
}

fn canceled(job: &Job, budget: Duration) -> String {
    format!("pulling image {}:{} is canceled after {budget:?}", job.key.image, job.key.tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::{
        cri::fake::{FakeImages, Outcome},
        images::{credentials::Secret, plan::TagKey},
    };

    fn job() -> Job {
        Job {
            key: TagKey::new("nginx", "1"),
            version: 4,
            timeout: Duration::from_secs(60),
            attempts: 3,
            deadline: None,
            only_if_missing: false,
            secrets: Vec::new(),
            sandbox: Default::default(),
            owners: Vec::new(),
        }
    }

    fn credential(username: &str) -> Credential {
        Credential { username: username.into(), password: Secret::new("password") }
    }

    async fn result(
        job: &Job,
        credentials: &[Credential],
        images: &FakeImages,
    ) -> (ImageTagStatus, Duration) {
        let clock = Clock::following(Timestamp::UNIX_EPOCH);
        let begun = clock.instant();
        let status = run(job, pulling(job, clock.now()), credentials, images, &clock).await;
        (status, clock.since(begun))
    }

    #[tokio::test(start_paused = true)]
    async fn a_download_ends_well_with_the_image_id() {
        let images = FakeImages::default();
        let (status, _) = result(&job(), &[], &images).await;
        assert_eq!((status.phase.as_str(), status.progress, status.version), ("Succeeded", 100, 4));
        assert_eq!(status.image_id, "nginx@sha256:config-of-docker.io/library/nginx:1");
        assert_eq!(status.message, "");
        assert!(status.start_time.is_some() && status.completion_time.is_some());
        let pull = &images.pulls()[0];
        assert_eq!(pull.image, "docker.io/library/nginx:1");
        assert_eq!(pull.annotations["apps.kruise.io/pulling-image-by"], "kruise-daemon");
        assert_eq!(pull.credential, None);
    }

    #[tokio::test(start_paused = true)]
    async fn failed_attempts_are_repeated_with_growing_waits_up_to_the_limit() {
        let images =
            FakeImages::with(vec![Outcome::Fail("no"), Outcome::Fail("no"), Outcome::Fail("still no")]);
        let (status, took) = result(&job(), &[], &images).await;
        assert_eq!((status.phase.as_str(), status.message.as_str()), ("Failed", "still no"));
        assert_eq!(images.pulls().len(), 3);
        assert_eq!(took, Duration::from_secs(1 + 2));
        let images = FakeImages::with(vec![Outcome::Fail("no")]);
        assert_eq!(result(&job(), &[], &images).await.0.phase, "Succeeded");
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_hangs_is_given_up_after_its_timeout() {
        let images = FakeImages::with(vec![Outcome::Hang, Outcome::Hang]);
        let (status, took) = result(&Job { attempts: 2, ..job() }, &[], &images).await;
        assert_eq!(status.message, "pulling image nginx:1 is canceled after 60s");
        assert_eq!(took, Duration::from_secs(60 + 1 + 60));
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_bounds_all_attempts_together() {
        let images = FakeImages::with(vec![Outcome::Hang, Outcome::Hang]);
        let job = Job { deadline: Some(Duration::from_secs(70)), ..job() };
        let (status, took) = result(&job, &[], &images).await;
        assert_eq!(status.message, DEADLINE_PASSED);
        assert_eq!(images.pulls().len(), 2, "the second attempt had nine seconds");
        assert_eq!(took, Duration::from_secs(60 + 1 + 9 + 2));
        let job = Job { deadline: Some(Duration::ZERO), ..job };
        assert_eq!(result(&job, &[], &images).await.0.message, DEADLINE_PASSED);
        assert_eq!(images.pulls().len(), 2, "nothing is begun after it");
    }

    #[tokio::test(start_paused = true)]
    async fn an_image_that_is_there_is_downloaded_again_only_if_asked_for() {
        let images = FakeImages::default();
        images.put("docker.io/library/nginx:1");
        let (status, _) = result(&Job { only_if_missing: true, ..job() }, &[], &images).await;
        assert_eq!((status.phase.as_str(), status.progress, images.pulls().len()), ("Succeeded", 100, 0));
        result(&job(), &[], &images).await;
        assert_eq!(images.pulls().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_are_tried_in_turn_and_never_nothing_instead() {
        let images = FakeImages::with(vec![Outcome::Fail("401")]);
        let both = [credential("wrong"), credential("right")];
        let (status, took) = result(&job(), &both, &images).await;
        assert_eq!((status.phase.as_str(), took), ("Succeeded", Duration::ZERO));
        let tried: Vec<_> = images.pulls().into_iter().map(|it| it.credential.unwrap().username).collect();
        assert_eq!(tried, ["wrong", "right"]);

        let images = FakeImages::with(vec![Outcome::Fail("401 for wrong"), Outcome::Fail("bad password")]);
        let (status, _) = result(&Job { attempts: 1, ..job() }, &both, &images).await;
        assert_eq!(status.message, "401 for ***, bad ***");
        assert_eq!(images.pulls().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_digest_is_asked_for_with_an_at_sign_and_found_by_it() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let images = FakeImages::default();
        let job = Job { key: TagKey::new("nginx", &digest), only_if_missing: true, ..job() };
        let (status, _) = result(&job, &[], &images).await;
        assert_eq!(images.pulls()[0].image, format!("docker.io/library/nginx@{digest}"));
        assert!(status.image_id.starts_with("nginx@sha256:config"), "{}", status.image_id);
        result(&job, &[], &images).await;
        assert_eq!(images.pulls().len(), 1, "it is there now");
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_is_no_name_fails_without_asking_anybody() {
        let images = FakeImages::default();
        let job = Job { key: TagKey::new("UPPER/case", "1"), attempts: 1, ..job() };
        let (status, _) = result(&job, &[], &images).await;
        assert_eq!(status.phase, "Failed");
        assert!(status.message.contains("must be lowercase"), "{}", status.message);
        assert!(images.pulls().is_empty());
    }

    #[test]
    fn images_are_recognised_by_their_familiar_name() {
        let image = |tag: &str| Image { repo_tags: vec![tag.into()], ..Image::default() };
        assert!(is_image(&image("docker.io/test/nginx:1.0"), "test/nginx", "1.0"));
        assert!(!is_image(&image("docker.io/library/nginx:1.0"), "test/nginx", "1.0"));
        assert!(is_image(&image("docker.io/library/nginx:latest"), "nginx", "latest"));
        assert!(!is_image(&image("docker.io/library/nginx:latest"), "docker.io/library/nginx", "latest"));
    }
}
