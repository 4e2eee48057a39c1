use super::echo::Setup;

const UPGRADE: &str = "GET /raw?a=1 HTTP/1.1\r\nHost: x\r\nUpgrade: raw\r\n\r\n";
const GET: &str = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn an_upgrade_gets_the_raw_socket_and_what_was_sent_behind_the_head() {
    let server = Setup::default().start();
    let mut client = server.connect();
    client.send(format!("{UPGRADE}early"));
    assert_eq!(client.read_until("\n"), "GET /raw?a=1 1.1 [host,upgrade] rest=early\n");
    client.send("late\n");
    assert_eq!(client.read_until("\n"), "late\n");
}

#[test]
fn every_request_of_a_connection_is_routed_by_itself() {
    let server = Setup::default().start();
    let mut client = server.connect();
    for _ in 0..3 {
        client.send(GET);
        assert_eq!(client.answer(), ("HTTP/1.1 200 OK".into(), "GET /hello core=0".into()));
    }
    client.send(format!("{UPGRADE}early"));
    assert_eq!(client.read_until("\n"), "GET /raw?a=1 1.1 [host,upgrade] rest=early\n");
    client.send("late\n");
    assert_eq!(client.read_until("\n"), "late\n");
}
