//! Plans on values: what users see, rule by rule, and what holds whatever happens.

mod claims;
mod hooks;
mod properties;
mod scaling;
mod updating;
mod village;

use village::Village;
