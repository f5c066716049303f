//! One folder per controller: observe, plan, apply, status.
