//! The engine end to end in one process: sources in memory that can misbehave, targets on real
//! volumes in temporary directories.

// Helpers are test code to clippy only where they say so.
mod after_cutover;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod guards;
#[cfg(test)]
mod hold;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod passes;
#[cfg(test)]
mod roll_back;
#[cfg(test)]
mod scope;
mod take_over;
mod trouble;
#[cfg(test)]
mod way_back;
