//! The engine end to end in one process: sources in memory that can misbehave, targets on real
//! volumes in temporary directories.

mod after_cutover;
mod fixture;
mod guards;
mod memory;
mod take_over;
mod trouble;
