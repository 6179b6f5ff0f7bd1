//! The end of a process, and the begin of the next one on the same ports.

use std::net::SocketAddr;

use baler::app::Listeners;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::support::{Baler, Client, Upstream, config, message, request, until_closed, within};

const GET: &str = "GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n";

#[tokio::test]
async fn requests_that_are_cut_off_at_the_end_are_counted() {
    let upstream = Upstream::start().await;
    let mut baler = Baler::start("shutdown.timeout = \"50ms\"", upstream.address).await;
    let mut running = Vec::new();
    for _ in 0..3 {
        let client = Client::send(baler.data, GET, b"").await;
        running.push((client, within(upstream.next()).await));
    }
    baler.stop.cancel();
    let drained = within(&mut baler.running).await.unwrap().unwrap();
    assert_eq!(drained.cut, 3);
}

#[tokio::test]
async fn a_request_that_is_on_its_way_when_draining_begins_is_answered() {
    let (address, log) = Upstream::agreeable().await;
    let mut baler = Baler::start("", address).await;
    // One connection that was used before, and one that said nothing yet.
    let mut used = Client::send(baler.data, GET, b"").await;
    within(used.read_until("\"ok\"}}]}")).await;
    let fresh = TcpStream::connect(baler.data).await.unwrap();
    baler.stop.cancel();
    until_closed(baler.data).await;
    for mut stream in [used.stream, fresh] {
        stream.write_all(GET.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within(stream.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
    assert_eq!(log.lock().unwrap().len(), 3);
    let drained = within(&mut baler.running).await.unwrap().unwrap();
    assert_eq!(drained.cut, 0);
}

#[tokio::test]
async fn the_next_process_takes_over_the_ports_while_the_last_one_drains() {
    let upstream = Upstream::start().await;
    let mut old = Baler::start("", upstream.address).await;
    let mut streaming = Client::send(old.data, GET, b"").await;
    let mut got = within(upstream.next()).await;
    let (address, _) = Upstream::agreeable().await;
    let ports = (old.data, old.admin);
    old.stop.cancel();
    until_closed(old.data).await;
    let new = Baler::start_on(ports, address).await;
    let body = request(&[message("user", "hi")]);
    for _ in 0..20 {
        assert_eq!(new.chat(&body).await.status, 200);
    }
    got.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlast")
        .await;
    within(streaming.read_until("last")).await;
    within(&mut old.running).await.unwrap().unwrap();
}

#[tokio::test]
async fn both_ports_can_be_shared_with_another_baler_but_with_no_other_program() {
    let mut config = config("", "http://127.0.0.1:1/v1");
    let first = Listeners::bind(&config).await.unwrap();
    config.listen = first.data.local_addr().unwrap();
    config.admin = first.admin.local_addr().unwrap();
    Listeners::bind(&config).await.unwrap();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    config.admin = other.local_addr().unwrap();
    let error = Listeners::bind(&config).await.unwrap_err();
    assert!(error.to_string().starts_with("admin.address "), "{error}");
}

#[tokio::test]
async fn a_baler_that_goes_on_serving_shares_neither_port() {
    let (address, _) = Upstream::agreeable().await;
    let baler = Baler::start("", address).await;
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    for (listen, admin, told) in [
        (baler.data, baler.admin, "listen.address"),
        (baler.data, free, "listen.address"),
        (free, baler.admin, "admin.address"),
    ] {
        let mut config = config("", "http://127.0.0.1:1/v1");
        (config.listen, config.admin) = (listen, admin);
        let error = within(Listeners::bind(&config)).await.unwrap_err();
        let error = error.to_string();
        let taken = if told == "listen.address" {
            listen
        } else {
            admin
        };
        assert!(error.starts_with(&format!("{told} {taken}: ")), "{error}");
        assert!(error.contains("not draining"), "{error}");
        assert!(error.contains("stop that process"), "{error}");
    }
    // Nothing of the attempts is left behind: every request still comes to the one upstream.
    for _ in 0..20 {
        let answer = baler.chat(&request(&[message("user", "hi")])).await;
        assert_eq!(answer.status, 200);
    }
}

/// A listener that shares its port, as Baler's do.
fn sharing() -> TcpListener {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseport(true).unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    socket.listen(8).unwrap()
}

#[tokio::test]
async fn a_baler_that_is_only_starting_shares_neither_port() {
    let (data, admin) = (sharing(), sharing());
    let mut config = config("", "http://127.0.0.1:1/v1");
    (config.listen, config.admin) = (data.local_addr().unwrap(), admin.local_addr().unwrap());
    let starting = tokio::spawn(async move {
        for status in ["503 Service Unavailable", "200 OK"] {
            let (mut stream, _) = admin.accept().await.unwrap();
            let mut asked = [0; 1024];
            assert!(stream.read(&mut asked).await.unwrap() > 0);
            let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
        }
    });
    let error = within(Listeners::bind(&config)).await.unwrap_err();
    assert!(error.to_string().contains("not draining"), "{error}");
    starting.await.unwrap();
}

/// Sends requests one after the other until nobody listens any more; returns how many were answered
/// and how many were sent and lost.
async fn ask_until_closed(to: SocketAddr) -> (usize, usize) {
    let (mut answered, mut lost) = (0, 0);
    while let Ok(mut stream) = TcpStream::connect(to).await {
        loop {
            let mut answer = Vec::new();
            if stream.write_all(GET.as_bytes()).await.is_err() {
                lost += 1;
                break;
            }
            while !answer.ends_with(b"\"ok\"}}]}") {
                if !matches!(stream.read_buf(&mut answer).await, Ok(1..)) {
                    break;
                }
            }
            if answer.is_empty() {
                lost += 1;
                break;
            }
            answered += 1;
            if String::from_utf8_lossy(&answer).contains("connection: close") {
                break;
            }
        }
    }
    (answered, lost)
}

#[tokio::test]
async fn no_request_is_lost_while_clients_go_on_asking() {
    let (address, _) = Upstream::agreeable().await;
    let mut baler = Baler::start("", address).await;
    let clients = (0..20).map(|_| tokio::spawn(ask_until_closed(baler.data)));
    let clients: Vec<_> = clients.collect();
    let other = "baler_requests_total{action=\"none\",endpoint=\"other\",status=\"2xx\"}";
    baler.metric_reaches(other, 200.0).await;
    baler.stop.cancel();
    for client in clients {
        let (answered, lost) = within(client).await.unwrap();
        assert!(
            answered > 0 && lost == 0,
            "{answered} answered, {lost} lost"
        );
    }
    let drained = within(&mut baler.running).await.unwrap().unwrap();
    assert_eq!(drained.cut, 0);
}

#[tokio::test]
async fn clients_that_leave_their_streams_leave_nothing_behind() {
    let upstream = Upstream::start().await;
    let baler = Baler::start("", upstream.address).await;
    let mut streams = Vec::new();
    for _ in 0..100 {
        let client = Client::send(baler.data, GET, b"").await;
        let mut got = within(upstream.next()).await;
        got.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
            .await;
        streams.push((client, got));
    }
    baler
        .metric_reaches("baler_requests_in_flight", 100.0)
        .await;
    for (client, mut got) in streams {
        drop(client);
        within(got.closed()).await;
    }
    baler.metric_ends("baler_requests_in_flight").await;
}
