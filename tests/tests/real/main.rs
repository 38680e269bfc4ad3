//! Tests against servers that others made. `cargo xtask real` provides them, and runs exactly these.

#[cfg(test)]
mod agent;
#[cfg(test)]
mod candidates;
#[cfg(test)]
mod comparison;
#[cfg(test)]
mod ends;
#[cfg(test)]
mod evaluation;
#[cfg(test)]
mod health;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod model;
#[cfg(test)]
mod nginx;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod program;
#[cfg(test)]
mod provided;
#[cfg(test)]
mod python_client;
#[cfg(test)]
mod queries;
#[cfg(test)]
mod receipt;
#[cfg(test)]
mod repair;
#[cfg(test)]
mod reports;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod tracking;
