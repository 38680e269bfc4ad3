//! The kit on our own implementations, which pass, and on faulty ones, which do not.
#[cfg(test)]
mod acceptances;
#[cfg(test)]
mod models;
#[cfg(test)]
mod workspaces;
