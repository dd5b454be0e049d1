"""The image as a sidecar: built from the Dockerfile without an engine, run by podman.

Needs root, buildah, podman, runc and debootstrap; skipped with the reason where one is
missing or the kernel forbids containers. The base image is made by debootstrap and kept in
the cache folder."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from harness import BUILD, ROOT, TrainglassTest, free_port, get, get_json, is_alive, main, wait_for

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "trainglass"
SUITE = "bookworm"
STORE = ["--root", str(CACHE / "containers"), "--runroot", "/run/trainglass-test-containers",
         "--storage-driver", "vfs"]
LIMITS = ["--pull=never", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
IMAGE = "localhost/trainglass-test"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
IMAGE_BYTES_MAX = 120_000_000
TRAINER = BUILD / "bin" / "train_mlp"


def call(*words, **options):
    options.setdefault("timeout", 1200)
    ended = subprocess.run([*map(str, words)], capture_output=True, text=True, **options)
    if ended.returncode != 0:
        raise AssertionError(f"{words}: {ended.returncode}\n{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}")
    return ended.stdout.strip()


def buildah(*words):
    return call("buildah", *STORE, *words, env={**os.environ, "BUILDAH_ISOLATION": "chroot"})


def podman(*words):
    return call("podman", *STORE, "--runtime", "runc", "--cgroup-manager", "cgroupfs",
                "--events-backend", "none", *words)


def make_base():
    """debian:<suite>-slim as its makers cut it: no documents, no lists."""
    name = f"docker.io/library/debian:{SUITE}-slim"
    if name in buildah("images", "--format", "{{.Name}}:{{.Tag}}").splitlines():
        return
    with tempfile.TemporaryDirectory() as folder:
        call("debootstrap", "--variant=minbase", SUITE, folder)
        for cut in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man",
                    "usr/share/locale", "usr/share/info", "var/log"):
            shutil.rmtree(f"{folder}/{cut}", ignore_errors=True)
        for kept in ("var/cache/apt/archives/partial", "var/lib/apt/lists/partial", "var/log"):
            os.makedirs(f"{folder}/{kept}", exist_ok=True)
        container = buildah("from", "scratch")
        if os.path.exists(CERTIFICATES):
            # So that package clients in the build reach what they reach here.
            shutil.copy(CERTIFICATES, f"{folder}/etc/host-certificates.crt")
            buildah("config", "--env", "NODE_EXTRA_CA_CERTS=/etc/host-certificates.crt", container)
        buildah("add", container, folder, "/")
        buildah("commit", "-q", container, name)
        buildah("rm", container)


def setUpModule():
    if os.getuid() != 0:
        raise unittest.SkipTest("containers need root here")
    for tool in ("buildah", "podman", "runc", "debootstrap"):
        if shutil.which(tool) is None:
            raise unittest.SkipTest(f"{tool} is not installed")
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"],
                      capture_output=True).returncode != 0:
        raise unittest.SkipTest("this kernel or container forbids namespaces")
    make_base()
    buildah("bud", "--pull-never", "--format", "docker", "--network=host", "-q", "-t", IMAGE, str(ROOT))


class ContainerTest(TrainglassTest):
    user = 4242

    def setUp(self):
        super().setUp()
        os.chown(self.directory, self.user, self.user)
        os.chmod(self.folder, 0o755)

    def job(self, *flags, env=None):
        """A training of another uid with the probe alone, as it runs without a page."""
        process = subprocess.Popen(
            ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups",
             str(BUILD / "bin/trainglass"), "run", "--no-server", *flags, "--", str(TRAINER)],
            env=self.environment(**(env or {})), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)

        def end():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.addCleanup(end)
        return process

    def container(self, *flags, words=(), network="host"):
        name = f"trainglass-test-{self.port}-{len(self._cleanups)}"
        podman("run", "-d", "--name", name, *LIMITS, f"--network={network}",
               "-e", f"TRAINGLASS_PORT={self.port}", *flags, IMAGE, *words)
        self.addCleanup(self.remove, name)
        return name

    def remove(self, name):
        def removed():
            try:
                podman("rm", "-f", "-t", "10", name)
                return True
            except AssertionError as error:  # podman looks while runc is just ending it
                return "no such container" in str(error)
        wait_for(removed, f"{name} to be removed")

    def sidecar(self, *flags, user=None, words=()):
        """A server on the job's shared memory, and until it answers."""
        name = self.container("--ipc=host", "--read-only", "--user",
                              f"{user or self.user}:{user or self.user}",
                              "-v", f"{self.directory}:{self.directory}:ro",
                              "-e", f"TRAINGLASS_DIR={self.directory}", *flags, words=words)
        wait_for(lambda: self.health() == 200, "the sidecar to answer")
        return name

    def health(self):
        try:
            return get(self.port, "/healthz")[0]
        except OSError:
            return None

    def sessions(self):
        return get_json(self.port, "/api/status").get("sessions", [])

    def state_becomes(self, state):
        return wait_for(lambda: [s for s in self.sessions() if s["state"] == state],
                        f"a session that is {state}: {self.sessions()}")[0]

    def test_the_image_is_small_and_not_roots(self):
        image = json.loads(podman("image", "inspect", IMAGE))[0]
        self.assertLess(image["Size"], IMAGE_BYTES_MAX)
        self.assertNotIn(image["Config"]["User"].split(":")[0], ("", "0", "root"))
        self.assertIn("--check", " ".join(image["Healthcheck"]["Test"]))

    def test_a_sidecar_in_its_own_pid_namespace_sees_the_job_live_and_then_dead(self):
        job = self.job()
        self.sidecar()
        seen = self.state_becomes("running")
        wait_for(lambda: self.sessions()[0]["steps"] > seen["steps"], "steps to go on")
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        self.state_becomes("crashed")

    def test_the_health_check_follows_the_server(self):
        name = self.sidecar()
        podman("exec", name, "trainglass", "serve", "--check")
        with self.assertRaisesRegex(AssertionError, "no server of yours"):
            podman("exec", name, "trainglass", "serve", "--check", "--port", str(free_port()))

    def test_on_the_hosts_network_it_stays_on_loopback(self):
        self.sidecar()
        listening = pathlib.Path("/proc/net/tcp").read_text().split()
        addresses = [word.split(":")[0] for word in listening if word.endswith(f":{self.port:04X}")]
        self.assertIn("0100007F", addresses)
        self.assertNotIn("00000000", [a for a, w in zip(addresses, listening) if w == "0A"])

    def test_in_a_network_of_its_own_it_listens_beyond_loopback_with_a_token(self):
        name = self.container(network="none")
        printed = wait_for(lambda: podman("logs", name), "the address")
        self.assertRegex(printed, rf"http://localhost:{self.port}/\?token=[0-9a-f]{{32}}")
        self.assertIn("0.0.0.0", printed)

    def test_another_uid_sees_what_the_job_shares_and_nothing_else(self):
        self.job("--share", "all")
        os.chmod(self.directory, 0o755)
        self.sidecar("-e", "TRAINGLASS_SHARE=all", user=5353)
        self.state_becomes("running")

    def test_another_uid_without_share_sees_no_session(self):
        job = self.job()
        os.chmod(self.directory, 0o755)
        wait_for(lambda: list(self.directory.glob("*.seg")), "the job to record")
        self.sidecar("-e", "TRAINGLASS_SHARE=all", user=5353)
        self.assertFalse([s for s in self.sessions() if s["state"] == "running"])
        self.assertTrue(is_alive(job.pid))

    def test_two_containers_share_memory_and_nothing_else(self):
        trainer = self.container("--ipc=shareable", "--entrypoint", "trainglass", network="none",
                                 words=("run", "--no-server", "--",
                                        "/usr/local/libexec/trainglass/train_mlp"))
        self.container(f"--ipc=container:{trainer}", "--read-only")
        wait_for(lambda: self.health() == 200, "the sidecar to answer")
        self.state_becomes("running")


if __name__ == "__main__":
    main()
