//! Counting repeated events, combining similar ones, dropping floods: client-go's rules, as a function of time.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};

use super::{Note, Severity};

/// Repeats within this time are counted, not written anew.
const WINDOW: Duration = Duration::from_secs(600);

/// So many different messages of one reason are written; further ones are combined.
const SIMILAR: usize = 10;

/// So many events of one object may come at once, and one more in each `REFILL`.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(300);

/// Of so many objects something is remembered.
const OBJECTS: usize = 4_096;

/// The longest message; also what the API server takes for newer events.
const MESSAGE: usize = 1_024;

/// What to write.
#[derive(Debug, PartialEq)]
pub(super) enum Write {
    /// A new event.
    Create(Event),
    /// One more of an event that was written before.
    Count(Event),
}

/// What is remembered of past events.
#[derive(Debug, Default)]
pub(super) struct Combiner {
    objects: HashMap<ObjectKey, History>,
    created: u64,
}

/// The component and the object: namespace, name, UID.
type ObjectKey = (&'static str, String, String, String);

#[derive(Debug)]
struct History {
    allowance: u32,
    refilled: Timestamp,
    last: Timestamp,
    reasons: HashMap<(Severity, &'static str), Similar>,
}

#[derive(Debug)]
struct Similar {
    messages: HashSet<String>,
    written: HashMap<String, Event>,
    last: Timestamp,
}

impl Combiner {
    /// What to write about `note` at `now`; nothing if there have been too many of the object.
    pub(super) fn take_in(&mut self, note: Note, now: Timestamp) -> Option<Write> {
        self.make_room(now);
        let about = &note.about;
        let text = |it: &Option<String>| it.clone().unwrap_or_default();
        let key = (note.component, text(&about.namespace), text(&about.name), text(&about.uid));
        let history = self.objects.entry(key).or_insert_with(|| History {
            allowance: BURST,
            refilled: now,
            last: now,
            reasons: HashMap::new(),
        });
        if !history.allows(now) {
            return None;
        }
        let similar = history.reasons.entry((note.severity, note.reason)).or_insert_with(|| Similar {
            messages: HashSet::new(),
            written: HashMap::new(),
            last: now,
        });
        if passed(similar.last, now) >= WINDOW {
            similar.messages.clear();
            similar.written.clear();
        }
        similar.last = now;
        let message = shorten(note.message.clone());
        let is_combined = !similar.messages.contains(&message) && similar.messages.len() >= SIMILAR;
        let (group, message) = if is_combined {
            (String::new(), shorten(format!("(combined from similar events): {message}")))
        } else {
            similar.messages.insert(message.clone());
            (message.clone(), message)
        };
        if let Some(event) = similar.written.get_mut(&group) {
            event.count = event.count.map(|it| it.saturating_add(1));
            event.last_timestamp = Some(Time(now));
            event.message = Some(message);
            return Some(Write::Count(event.clone()));
        }
        self.created += 1;
        let event = event(&note, message, now, self.created);
        similar.written.insert(group, event.clone());
        Some(Write::Create(event))
    }

    /// Keeps the number of objects bounded: the quiet ones go first, then anything does.
    fn make_room(&mut self, now: Timestamp) {
        if self.objects.len() >= OBJECTS {
            self.objects.retain(|_, it| passed(it.last, now) < WINDOW);
        }
        if self.objects.len() >= OBJECTS {
            self.objects.clear();
        }
    }
}

impl History {
    fn allows(&mut self, now: Timestamp) -> bool {
        self.last = now;
        let earned = u32::try_from(passed(self.refilled, now).as_secs() / REFILL.as_secs()).unwrap_or(BURST);
        if earned > 0 {
            self.allowance = self.allowance.saturating_add(earned).min(BURST);
            self.refilled = now;
        }
        match self.allowance.checked_sub(1) {
            Some(left) => {
                self.allowance = left;
                true
            }
            None => false,
        }
    }
}

fn event(note: &Note, message: String, now: Timestamp, number: u64) -> Event {
    let namespace = note.about.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let mut name = note.about.name.clone().unwrap_or_default();
    // A name may have 253 characters; the suffix tells events of one object apart, also within one tick of the clock.
    name.truncate(200);
    let name = format!("{name}.{:x}.{number:x}", now.as_nanosecond());
    Event {
        metadata: ObjectMeta { name: Some(name), namespace: Some(namespace), ..ObjectMeta::default() },
        involved_object: note.about.clone(),
        reason: Some(note.reason.to_owned()),
        message: Some(message),
        type_: Some(note.severity.name().to_owned()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        source: Some(EventSource { component: Some(note.component.to_owned()), host: None }),
        reporting_component: Some(note.component.to_owned()),
        reporting_instance: Some(String::new()),
        ..Event::default()
    }
}

fn passed(earlier: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(earlier)).unwrap_or_default()
}

fn shorten(mut message: String) -> String {
    if message.len() > MESSAGE {
        let mut end = MESSAGE - "...".len();
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
        message.push_str("...");
    }
    message
}
