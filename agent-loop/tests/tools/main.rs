//! Tools in a real sandbox, on the local service: what is refused, what is limited, what is lost.

#[cfg(test)]
mod limits;
#[cfg(test)]
mod once;
#[cfg(test)]
mod place;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod tracked;
