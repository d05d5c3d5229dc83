//! A Cassandra cluster for a test: nodes at 127.0.0.1, 127.0.0.2, .., with the jars that `make cassandra` fetches.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use local_cluster::{can_listen, free_port, wait_until};

use super::{ServerFolder, installed, kill};

/// The bound of a cluster's start: a node takes 15 s of one processor.
const START_LIMIT: Duration = Duration::from_secs(180);
/// Heap of a node. Its process takes about twice of that.
const HEAP: &str = "384M";
/// Packages of Java 17 that Cassandra uses although their modules do not export them.
const EXPORTS: &[&str] = &[
    "java.base/java.lang.ref",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
];
/// The same for reflection.
const OPENS: &[&str] = &[
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
];
const LOGBACK: &str = r#"<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level %date{ISO8601} %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="OUT"/></root>
</configuration>
"#;

/// A Cassandra cluster that lives as long as this value.
#[derive(Debug)]
pub struct CassandraCluster {
    folder: ServerFolder,
    jars: PathBuf,
    port: u16,
    storage_port: u16,
    /// Lines of `cassandra.yaml` besides those that every node has.
    settings: String,
    nodes: Vec<Option<Child>>,
}

impl CassandraCluster {
    /// The first node, then the others at the same time, with one token each.
    ///
    /// # Panics
    /// If they cannot be started, with the end of a node's log: it is for tests.
    pub fn start(nodes: u8) -> CassandraCluster {
        CassandraCluster::with(nodes, "")
    }

    /// The same with further lines of `cassandra.yaml`.
    ///
    /// # Panics
    /// As [`CassandraCluster::start`].
    pub fn with(nodes: u8, settings: &str) -> CassandraCluster {
        let folder = ServerFolder::create("cassandra").expect("a folder for servers");
        let (port, storage_port) = (common_port(nodes), common_port(nodes));
        let (jars, settings, nodes_of) = (jars(), settings.to_owned(), Vec::new());
        let mut cluster = CassandraCluster { folder, jars, port, storage_port, settings, nodes: nodes_of };
        for number in 0..nodes {
            cluster.configure(number, nodes);
            cluster.nodes.push(None);
            cluster.spawn(usize::from(number));
            // The others ask the first one who is there, and end if it does not answer.
            if number == 0 {
                cluster.wait_until_serving(0);
            }
        }
        (0..usize::from(nodes)).for_each(|number| cluster.wait_until_serving(number));
        (0..nodes).for_each(|number| cluster.wait_until_known(number));
        cluster
    }

    /// Whether its jars are there: `make cassandra`.
    pub fn is_installed() -> bool {
        jars_folder().is_some()
    }

    /// The address of a node, from 0.
    pub fn address(&self, number: usize) -> SocketAddr {
        let number = u8::try_from(number).expect("few nodes");
        SocketAddr::from((host(number), self.port))
    }

    /// The addresses of all nodes.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        (0..self.nodes.len()).map(|number| self.address(number)).collect()
    }

    /// Ends a node at once, as `kill -9` does.
    pub fn kill(&mut self, number: usize) {
        if let Some(mut node) = self.nodes[number].take() {
            kill(&mut node);
        }
    }

    /// Starts a killed node again, with its files, and waits until it serves.
    ///
    /// # Panics
    /// If it cannot be started, with the end of its log.
    pub fn restart(&mut self, number: usize) {
        self.kill(number);
        self.spawn(number);
        self.wait_until_serving(number);
    }

    fn configure(&self, number: u8, nodes: u8) {
        let folder = self.folder.of(&name(usize::from(number))).expect("a folder for a node");
        // One token a node, at equal distances on the ring from -2^63 to 2^63.
        let token = (u64::MAX / u64::from(nodes) * u64::from(number)).wrapping_add(1 << 63).cast_signed();
        let text = format!(
            "cluster_name: consort
num_tokens: 1
initial_token: '{token}'
auto_bootstrap: false
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{{seeds: '127.0.0.1:{storage}'}}]
listen_address: {host}
storage_port: {storage}
rpc_address: {host}
native_transport_port: {port}
commitlog_sync: group
commitlog_sync_group_window: 5ms
commitlog_segment_size: 8MiB
data_file_directories: [{folder}/data]
commitlog_directory: {folder}/commitlog
saved_caches_directory: {folder}/caches
hints_directory: {folder}/hints
cdc_raw_directory: {folder}/cdc
auto_snapshot: false
{settings}
",
            settings = self.settings,
            storage = self.storage_port,
            host = host(number),
            port = self.port,
            folder = folder.display(),
        );
        fs::write(folder.join("cassandra.yaml"), text).expect("the folder takes files");
        fs::write(folder.join("logback.xml"), LOGBACK).expect("the folder takes files");
    }

    fn spawn(&mut self, number: usize) {
        let name = name(number);
        let folder = self.folder.of(&name).expect("a folder for a node");
        // The log of an earlier start would tell of another one's neighbours.
        let _ = fs::remove_file(folder.join("log"));
        let node = self.folder.start(&name, &mut java(&self.jars, &folder)).expect("java runs");
        self.nodes[number] = Some(node);
    }

    fn wait_until_serving(&mut self, number: usize) {
        let address = self.address(number);
        let node = self.nodes[number].as_mut().expect("a started node");
        let mut has_ended = false;
        let serves = wait_until(START_LIMIT, || {
            has_ended = node.try_wait().is_ok_and(|status| status.is_some());
            has_ended || TcpStream::connect(address).is_ok()
        });
        if !serves || has_ended {
            self.give_up(number);
        }
    }

    /// Waits until each other node has found this one.
    fn wait_until_known(&self, number: u8) {
        let member = format!("InetAddress /{}:{} is now UP", host(number), self.storage_port);
        for other in (0..self.nodes.len()).filter(|other| *other != usize::from(number)) {
            if !wait_until(START_LIMIT, || self.folder.log(&name(other)).contains(&member)) {
                self.give_up(other);
            }
        }
    }

    fn give_up(&self, number: usize) -> ! {
        let log = self.folder.log(&name(number));
        let end = log.lines().rev().take(60).collect::<Vec<_>>();
        panic!(
            "node {number} of Cassandra does not serve: {}",
            end.into_iter().rev().collect::<Vec<_>>().join("\n")
        );
    }
}

fn java(jars: &Path, folder: &Path) -> Command {
    let agent = fs::read_dir(jars)
        .expect("the folder of the jars")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .find(|name| name.starts_with("jamm-"))
        .expect("a jar jamm-*.jar");
    let java = installed(&[
        "/usr/lib/jvm/java-17-openjdk-amd64/bin/java",
        "/usr/lib/jvm/java-17-openjdk-arm64/bin/java",
    ]);
    let mut command = Command::new(java.unwrap_or_else(|| PathBuf::from("java")));
    command.args([format!("-Xms{HEAP}"), format!("-Xmx{HEAP}")]);
    // A test's nodes start often and live briefly: the first compiler alone starts them faster.
    command.args(["-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]);
    for part in EXPORTS {
        command.args(["--add-exports".to_owned(), format!("{part}=ALL-UNNAMED")]);
    }
    for part in OPENS {
        command.args(["--add-opens".to_owned(), format!("{part}=ALL-UNNAMED")]);
    }
    command.arg(format!("-javaagent:{}", jars.join(agent).display()));
    let folder = folder.display();
    command.args([
        format!("-Dlogback.configurationFile={folder}/logback.xml"),
        format!("-Dcassandra.config=file://{folder}/cassandra.yaml"),
        format!("-Dcassandra.storagedir={folder}"),
    ]);
    command.args([
        // Otherwise the node closes its output, and with it its log, as soon as it serves.
        "-Dcassandra-foreground=yes",
        "-Dcassandra.ring_delay_ms=5000",
        "-Dcassandra.superuser_setup_delay_ms=0",
        "-Dcassandra.skip_wait_for_gossip_to_settle=0",
        "-Dcassandra.consistent.rangemovement=false",
        "-Djava.net.preferIPv4Stack=true",
        "-Dio.netty.tryReflectionSetAccessible=true",
    ]);
    command.args(["-cp", &format!("{}/*", jars.display()), "org.apache.cassandra.service.CassandraDaemon"]);
    command
}

/// The folder that `make cassandra` fills: `CONSORT_CASSANDRA`, or `cassandra` in the folder `target` of the test program.
fn jars() -> PathBuf {
    jars_folder().expect("Cassandra's jars are there: make cassandra")
}

fn jars_folder() -> Option<PathBuf> {
    let beside = || {
        let program = env::current_exe().expect("the test program has a path");
        program.ancestors().find(|folder| folder.ends_with("target")).map(|target| target.join("cassandra"))
    };
    let folder = env::var_os("CONSORT_CASSANDRA").map(PathBuf::from).or_else(beside);
    folder.filter(|folder| folder.is_dir())
}

/// A port that is free at the addresses of all nodes: drivers look for each node at the port of the first.
fn common_port(nodes: u8) -> u16 {
    let is_free =
        |port: u16| (1..nodes).all(|number| can_listen(SocketAddr::from((host(number), port))).is_ok());
    (0..100)
        .filter_map(|_| free_port().ok())
        .find(|port| is_free(*port))
        .expect("a port is free at the addresses of all nodes")
}

fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, number + 1)
}

fn name(number: usize) -> String {
    format!("node{}", number + 1)
}
