mod configurations;
mod envelopes;
mod fake_api;
mod replica;
mod replicas;
mod starting_states;
mod upkeep;
