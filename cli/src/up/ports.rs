//! Are the ports free? Asked before anything is copied: a copy of hours must not end in "address
//! in use".

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use anyhow::anyhow;
use filestore_gateway::Listen;
use filestore_migrator::ExitCode;

use crate::exit::WithCode as _;

/// Binds each address for a moment.
///
/// # Errors
/// The first address that cannot be had, with what to do.
pub(super) fn check_free(addresses: &[(&str, Listen)]) -> anyhow::Result<()> {
    addresses
        .iter()
        .try_for_each(|(flag, listen)| {
            bind(*listen).map(drop).map_err(|error| {
                let reason = match error.kind() {
                    io::ErrorKind::AddrInUse => "another process uses this port".to_owned(),
                    io::ErrorKind::PermissionDenied => {
                        "ports below 1024 need more rights".to_owned()
                    }
                    io::ErrorKind::AddrNotAvailable => {
                        "this machine has no such address".to_owned()
                    }
                    _ => error.to_string(),
                };
                anyhow!("cannot listen on {listen}: {reason}; choose another with {flag}")
            })
        })
        .code(ExitCode::Retryable)
}

fn bind(listen: Listen) -> io::Result<TcpListener> {
    match listen {
        Listen::At(address) => TcpListener::bind(address),
        Listen::Any(port) => TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))
            .or_else(|_| TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_named_with_the_flag_that_changes_it() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();

        let error = check_free(&[("--listen", Listen::At(address))]).unwrap_err();

        assert_eq!(crate::exit::of(&error), ExitCode::Retryable);
        assert_eq!(
            error.to_string(),
            format!(
                "cannot listen on {address}: another process uses this port; choose another with --listen"
            )
        );
        drop(taken);
        assert!(check_free(&[("--listen", Listen::At(address))]).is_ok());
    }
}
