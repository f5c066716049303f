//! What many objects have in common, kept once: words such as `True`, and whatever pods of one template share.

use std::{
    borrow::Borrow,
    collections::HashSet,
    fmt,
    hash::Hash,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Deserializer, de};

/// A value that is kept once, however many objects have it. Reading it is as reading the value; whoever changes it gets a
/// copy of his own.
#[derive(PartialEq, Eq, Hash)]
pub struct Shared<T: ?Sized>(Arc<T>);

/// A word that is kept once.
pub type Word = Shared<str>;

/// What is kept once.
pub trait Common: Hash + Eq + Send + Sync + 'static {
    /// Where it is kept.
    fn pool() -> &'static Pool<Self>;
}

impl Common for str {
    fn pool() -> &'static Pool<Self> {
        static POOL: Pool<str> = Pool::new();
        &POOL
    }
}

/// Values that are in use, each once.
#[derive(Debug)]
pub struct Pool<T: ?Sized>(Mutex<Kept<T>>);

#[derive(Debug)]
struct Kept<T: ?Sized> {
    values: Option<HashSet<Arc<T>>>,
    /// With so many, those that nobody has any more are forgotten.
    sweep_at: usize,
}

/// Below this nothing is swept.
const FEW: usize = 512;

impl<T: ?Sized + Hash + Eq> Pool<T> {
    /// Nothing is kept yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Kept { values: None, sweep_at: FEW }))
    }

    fn get<Q>(&self, value: Q) -> Arc<T>
    where
        Q: Borrow<T> + Into<Arc<T>>,
    {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Kept { values, sweep_at } = &mut *kept;
        let values = values.get_or_insert_default();
        if let Some(known) = values.get(value.borrow()) {
            return known.clone();
        }
        if values.len() >= *sweep_at {
            values.retain(|it| Arc::strong_count(it) > 1);
            *sweep_at = (values.len() * 2).max(FEW);
        }
        let new = value.into();
        values.insert(new.clone());
        new
    }
}

impl<T: ?Sized + Hash + Eq> Default for Pool<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ?Sized> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<'a, T> IntoIterator for &'a Shared<Vec<T>> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: ?Sized> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Common + Default> Default for Shared<T> {
    fn default() -> Self {
        T::default().into()
    }
}

impl Default for Word {
    fn default() -> Self {
        "".into()
    }
}

impl<T: Common> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(T::pool().get(value))
    }
}

impl From<&str> for Word {
    fn from(word: &str) -> Self {
        Self(str::pool().get(word))
    }
}

impl<'de, T: Common + Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Into::into)
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl de::Visitor<'_> for Reader {
            type Value = Word;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Word, E> {
                Ok(word.into())
            }
        }

        deserializer.deserialize_str(Reader)
    }
}

impl PartialEq<str> for Word {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Word {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl PartialEq<String> for Word {
    fn eq(&self, other: &String) -> bool {
        **self == **other
    }
}

impl PartialEq<Word> for String {
    fn eq(&self, other: &Word) -> bool {
        **self == **other
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Common for Vec<u8> {
        fn pool() -> &'static Pool<Self> {
            static POOL: Pool<Vec<u8>> = Pool::new();
            &POOL
        }
    }

    #[test]
    fn a_word_is_kept_once_and_reads_as_itself() {
        let [one, other]: [Word; 2] =
            serde_json::from_str(r#"["a word for this test", "a word for this test"]"#).unwrap();
        assert!(Arc::ptr_eq(&one.0, &other.0));
        assert_eq!((one == *"a word for this test", one.len()), (true, 20));
        assert!(Word::default().is_empty());
    }

    #[test]
    fn what_nobody_has_any_more_is_forgotten() {
        let pool: Pool<str> = Pool::new();
        let held: Vec<Arc<str>> = (0..10).map(|it| pool.get(format!("held {it}").as_str())).collect();
        for number in 0..10 * FEW {
            pool.get(format!("passing {number}").as_str());
        }
        let count = || pool.0.lock().unwrap().values.as_ref().unwrap().len();
        assert!(count() <= FEW, "{}", count());
        assert!(held.iter().all(|it| Arc::ptr_eq(it, &pool.get(&**it))));
    }

    #[test]
    fn who_changes_a_shared_value_has_a_copy_of_his_own() {
        let one: Shared<Vec<u8>> = vec![1, 2].into();
        let mut other = one.clone();
        other.push(3);
        assert_eq!((one.len(), other.len()), (2, 3));
    }
}
