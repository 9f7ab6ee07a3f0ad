"""Asks a frontier's REST API from outside, as a worker in another language does.

    python rest.py TEST ADDRESS [WHAT ELSE IT NEEDS…]

Nothing but the standard library: what works here works with any client.
"""

import http.client
import json
import re
import socket
import ssl
import sys
import time
from urllib.parse import urlsplit


class Client:
    """Requests with JSON in and out."""

    def __init__(self, address, token=None, context=None):
        self.address, self.token, self.context = address, token, context

    def raw(self, method, path, body=None, headers=()):
        """The status, the headers and the text of an answer."""
        kind = http.client.HTTPSConnection if self.context else http.client.HTTPConnection
        more = {"context": self.context} if self.context else {}
        connection = kind(self.address.replace("127.0.0.1", "localhost") if self.context else self.address,
                          timeout=70, **more)
        headers = dict(headers)
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def ask(self, method, path, what=None):
        """The status, and what the JSON says."""
        body = None if what is None else json.dumps(what)
        status, headers, text = self.raw(method, path, body)
        assert headers["content-type"] == "application/json", (path, headers["content-type"], text)
        return status, json.loads(text)

    def good(self, method, path, what=None):
        status, said = self.ask(method, path, what)
        equal(status, 200, said)
        return said

    def refused(self, status, method, path, what=None):
        """It is refused with this status, and with a sentence."""
        got, said = self.ask(method, path, what)
        equal(got, status, said)
        equal(list(said), ["error"])
        assert len(said["error"]) > 10, said
        return said["error"]

    def inject(self, *urls, **more):
        return self.good("POST", "/frontier/v1/urls", {"urls": urls, **more})

    def next(self, urls=10, wait=5, **more):
        more = "".join(f"&{name}={value}" for name, value in more.items())
        return self.good("GET", f"/frontier/v1/next?urls={urls}&wait={wait}{more}")["leases"]

    def update(self, lease, **what):
        return self.good("PUT", f"/frontier/v1/urls/{lease['id']}", what)

    def stats(self):
        return self.good("GET", "/frontier/v1/stats")

    def hosts(self, query=""):
        return self.good("GET", f"/frontier/v1/hosts{query}")


def equal(left, right, about=""):
    assert left == right, f"{left!r} is not {right!r} {about}"


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


# ── a worker ─────────────────────────────────────────────────────────────────────────────────


def fetch(lease):
    """One request, to the lease's address alone; redirects are not followed."""
    parts = urlsplit(lease["url"])
    connection = http.client.HTTPConnection(lease["address"], parts.port or 80, timeout=10)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    began = time.monotonic()
    try:
        connection.request("GET", path, headers={"Host": parts.netloc, "User-Agent": "rest.py"})
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        return {"outcome": "failed", "fault": "reset", "detail": str(error)}
    finally:
        connection.close()
    text = body.decode("utf-8", "replace")
    told = {"outcome": "fetched", "status": answer.status, "body_bytes": len(body),
            "took_ms": int((time.monotonic() - began) * 1000),
            "headers": {name.lower(): value for name, value in answer.getheaders()}}
    if lease["kind"] == "robots":
        return {**told, "body": text}
    return {**told, "links": re.findall(r'href="?([^">\s]+)', text)}


def crawl(c, *seeds):
    """Until nothing is left."""
    equal(c.inject(*seeds)["accepted"], len(seeds))
    made = []
    end = time.monotonic() + 60
    while c.stats()["queued"] + c.stats()["scheduled"] + c.stats()["in_flight"] > 0:
        assert time.monotonic() < end, c.stats()
        for lease in c.next(wait=1):
            assert lease["pause_ms"] >= 50, lease
            equal(c.update(lease, **fetch(lease))["repeated"], False)
            made.append(lease)
    ids = [lease["id"] for lease in made]
    equal(len(set(ids)), len(ids))
    stats = c.stats()
    equal((stats["pages"], stats["in_flight"]), (int(sys.argv[-1]), 0))
    assert stats["run_pages"] == stats["pages"] and stats["run_seconds"] > 0, stats
    assert 0 <= stats["filter"]["false_positive_ratio"] < 0.1, stats


def slow_down(c, seed):
    """A host with a delay of its own; the journal of the server tells whether it was kept."""
    host = urlsplit(seed).hostname
    c.refused(404, "PUT", f"/frontier/v1/hosts/{host}/rate", {"delay": "1s"})
    equal(c.inject(seed)["accepted"], 1)
    said = c.good("PUT", f"/frontier/v1/hosts/{host}/rate", {"delay": "1s"})
    equal(said, {"host": host, "delay_ms": 1000, "pause_ms": 1000})
    # Less than politeness.delay may be asked for, and is not given.
    said = c.good("PUT", f"/frontier/v1/hosts/{host}/rate", {"delay": "1ms"})
    equal((said["delay_ms"], said["pause_ms"]), (1, 50))
    c.good("PUT", f"/frontier/v1/hosts/{host}/rate", {"delay": "1s"})
    [row] = c.hosts()["hosts"]
    equal((row["host"], row["waiting"], row["delay_ms"]), (host, 1, 1000))


def visit_three(c):
    pauses = []
    end = time.monotonic() + 30
    while len(pauses) < 3:
        assert time.monotonic() < end, "it did not come about"
        for lease in c.next(urls=1):
            c.update(lease, **fetch(lease))
            pauses.append(lease["pause_ms"])
    assert min(pauses) >= 1000, pauses


# ── over a kill ──────────────────────────────────────────────────────────────────────────────


def before_a_kill(c, seed, file):
    c.inject(seed)
    [robots] = c.next()
    equal((robots["kind"], robots["origin"]), ("robots", seed.rstrip("/")))
    c.update(robots, outcome="fetched", status=404)
    [failed] = c.next()
    # Without an answer there is no line in the log; it is known all the same.
    c.update(failed, outcome="failed", fault="timeout", detail="first byte")
    equal(c.update(failed, outcome="fetched", status=200)["repeated"], True)
    wait_for(lambda: c.stats()["scheduled"] == 0)
    [lost] = c.next(wait=20)
    equal(lost["url"], seed)
    json.dump({"kept": robots, "lost": lost}, open(file, "w"))


def after_a_kill(c, seed, file):
    told = json.load(open(file))
    equal(c.inject(seed)["known"], 1)
    equal((c.stats()["known"], c.stats()["queued"]), (1, 1))
    # What was reported before is known; what was under way is nobody's any more.
    equal(c.update(told["kept"], outcome="fetched", status=404)["repeated"], True)
    c.refused(409, "PUT", f"/frontier/v1/urls/{told['lost']['id']}", {"outcome": "fetched", "status": 200})
    leases = []
    wait_for(lambda: leases.extend(c.next(wait=1)) or leases)
    [again] = leases
    equal(again["url"], seed)
    assert again["id"] != told["lost"]["id"], again
    equal(c.update(again, outcome="fetched", status=200, links=["a", "/b?x=1", "mailto:x"])["repeated"], False)
    equal(c.update(again, outcome="fetched", status=200)["repeated"], True)
    equal((c.stats()["known"], c.stats()["queued"], c.stats()["pages"]), (3, 2, 1))


# ── leases ───────────────────────────────────────────────────────────────────────────────────


def lease_runs_out(c, seed):
    c.inject(seed)
    [lease] = c.next(lease=1)
    equal(c.next(wait=0), [])  # its host is taken
    # Heartbeats keep it, however long it takes.
    beat = lambda: c.good("POST", "/frontier/v1/heartbeat", {"visits": [lease["id"]]})
    enough = time.monotonic() + 2.5
    wait_for(lambda: equal(beat(), {"ended": []}) or time.monotonic() > enough)
    # Nobody says anything: it is somebody else's.
    again = []
    wait_for(lambda: again.extend(c.next(wait=1)) or again)
    equal((again[0]["url"], again[0]["kind"]), (lease["url"], lease["kind"]))
    equal(beat(), {"ended": [lease["id"]]})
    c.refused(409, "PUT", f"/frontier/v1/urls/{lease['id']}", {"outcome": "fetched", "status": 404})
    # What is given back can be had at once.
    c.update(again[0], outcome="returned")
    [third] = c.next()
    equal(third["url"], lease["url"])


def a_call_that_hangs_up_takes_nothing(c, seed):
    c.inject("http://elsewhere.test/")  # nobody knows this name: the call below waits
    host, port = c.address.rsplit(":", 1)
    caller = socket.create_connection((host, int(port)))
    caller.sendall(b"GET /frontier/v1/next?wait=30 HTTP/1.1\r\nHost: x\r\n\r\n")
    enough = time.monotonic() + 0.3
    wait_for(lambda: time.monotonic() > enough)  # it waits by now
    caller.close()
    c.inject(seed)
    leases = []
    wait_for(lambda: leases.extend(c.next(wait=1)) or leases, 10)
    equal(leases[0]["host"], urlsplit(seed).hostname)


def blocked_is_told_with_its_reason(c, seed):
    c.inject(seed)
    [robots] = c.next()
    c.refused(422, "PUT", f"/frontier/v1/urls/{robots['id']}", {"outcome": "fetched", "status": 200})
    c.update(robots, outcome="fetched", status=200, body="User-agent: *\nCrawl-delay: 0.2\n")
    [page] = c.next()
    assert page["pause_ms"] >= 200, page
    for what in [{}, {"status": 20}, {"status": 200, "sha1": "x"}, {"status": 200, "truncated": "all"}]:
        c.refused(422, "PUT", f"/frontier/v1/urls/{page['id']}", {"outcome": "fetched", **what})
    for what in [{"outcome": "failed"}, {"outcome": "failed", "fault": "gremlins"}, {"outcome": "blocked"},
                 {"outcome": "failed", "fault": "timeout", "status": 503}, {"outcome": "eaten"}]:
        c.refused(422, "PUT", f"/frontier/v1/urls/{page['id']}", what)
    # After all of that it is still the worker's own.
    c.update(page, outcome="blocked", detail="it is on our list")


# ── pages of hosts ───────────────────────────────────────────────────────────────────────────


def hosts_are_paged(c):
    names = [f"h{n:02}.site-{n % 7}.test" for n in range(25)]
    c.inject(*[f"http://{name}/{n}" for name in names for n in range(2)])
    met, query = [], "?limit=4"
    while True:
        page = c.hosts(query)
        met += [(row["host"], row["waiting"], row["waiting_more"]) for row in page["hosts"]]
        if page["next"] is None:
            break
        query = f"?limit=4&after={page['next']}"
    equal(sorted(met), [(name, 2, False) for name in names])
    equal(len(c.hosts()["hosts"]), 25)


def urls_are_judged_one_by_one(c):
    said = c.inject("HTTP://A.test:80/x/../y?b=2&a=1#f", "ftp://a.test/", "http://", "http://a.test/y?a=1&b=2")
    equal([row["status"] for row in said["results"]], ["accepted", "refused", "refused", "accepted"])
    equal(said["results"][0]["canonical"], "http://a.test/y?a=1&b=2")
    equal(said["results"][1]["url"], "ftp://a.test/")
    assert said["results"][1]["reason"] and said["results"][0]["reason"] is None, said
    equal(c.stats()["known"], 1)
    equal(c.good("POST", "/frontier/v1/urls", {"url": "http://a.test/y?a=1&b=2"})["known"], 1)
    # What is no seed must be in scope.
    said = c.inject("http://a.test/z", "http://b.test/", seed=False)
    equal([row["status"] for row in said["results"]], ["accepted", "refused"])
    assert "crawl.scope" in said["results"][1]["reason"], said


# ── bad input ────────────────────────────────────────────────────────────────────────────────


def bad_input_is_refused_with_a_sentence(c):
    lease = "/frontier/v1/urls/0-1"
    rate = "/frontier/v1/hosts/a.test/rate"
    bodies = [("POST", "/frontier/v1/urls"), ("PUT", lease), ("PUT", rate), ("POST", "/frontier/v1/heartbeat")]
    for method, path in bodies:
        for body in [b"", b"{", b"nonsense", b'{"', b"\xff\xfe"]:
            status, headers, text = c.raw(method, path, body)
            equal(status, 400, (path, body, text))
            assert "send JSON such as {" in json.loads(text)["error"], text
        for body in [b"7", b'{"what": 1}', b'["x"]', b"null"]:
            status, _, text = c.raw(method, path, body)
            equal(status, 422, (path, body, text))
            assert json.loads(text)["error"], text
        big = b'{"urls": ["' + b"x" * 5_000_000 + b'"]}'
        try:
            status, _, text = c.raw(method, path, big)
            equal(status, 413, (path, text))
            assert "at most 4194304 bytes" in json.loads(text)["error"], text
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has answered before we had sent all
    c.refused(413, "POST", "/frontier/v1/urls", {"urls": ["http://a.test/"] * 10_001})
    c.refused(422, "POST", "/frontier/v1/urls", {"urls": []})
    done = {"outcome": "fetched", "status": 200}
    for id in ["0-1", "0-999999", "9-1", "x", "-", "1", "0-0", "%20", "18446744073709551616-1"]:
        c.refused(404, "PUT", f"/frontier/v1/urls/{id}", done)
    c.refused(404, "PUT", "/frontier/v1/hosts/unknown.test/rate", {"delay": "1s"})
    for host in ["a.test:80", "a%20b", "u@a.test", "%2F"]:
        c.refused(400, "PUT", f"/frontier/v1/hosts/{host}/rate", {"delay": "1s"})
    for delay in ["fast", "1", -1, 5, "31d", {}]:
        c.refused(422, "PUT", rate, {"delay": delay})
    for query in ["urls=0", "urls=1001", "urls=x", "urls=-1", "wait=31", "lease=0", "lease=9999", "what=1",
                  "urls=1&urls=2"]:
        c.refused(400, "GET", f"/frontier/v1/next?{query}")
    for query in ["limit=0", "limit=1001", "after=a.test:80", "after=", "page=2"]:
        c.refused(400, "GET", f"/frontier/v1/hosts?{query}")
    c.refused(404, "POST", "/frontier/v1/heartbeat", {"visits": ["x"]})
    for method, path in [("GET", "/frontier/v1/urls"), ("DELETE", lease), ("POST", "/frontier/v1/next"),
                         ("GET", rate), ("PUT", "/frontier/v1/hosts"), ("PATCH", "/frontier/v1/stats")]:
        c.refused(405, method, path, {} if method in ("PUT", "POST", "PATCH") else None)
    c.refused(404, "GET", "/")
    c.refused(404, "GET", "/frontier/v2/stats")
    equal(c.stats()["known"], 0)


# ── who may ask, and what is told ────────────────────────────────────────────────────────────


def only_with_the_token(c):
    paths = [("POST", "/frontier/v1/urls"), ("PUT", "/frontier/v1/urls/0-1"), ("GET", "/frontier/v1/next"),
             ("PUT", "/frontier/v1/hosts/a.test/rate"), ("GET", "/frontier/v1/hosts"), ("GET", "/openapi.json"),
             ("GET", "/frontier/v1/stats"), ("POST", "/frontier/v1/heartbeat"), ("GET", "/metrics")]
    for token in (None, "guess", "secre", "secrets"):
        for method, path in paths:
            said = Client(c.address, token).refused(401, method, path, {} if method != "GET" else None)
            assert "Authorization: Bearer" in said, said
    equal(Client(c.address, "secret").stats()["known"], 0)
    equal(c.raw("GET", "/healthz")[0], 200)


def over_tls(c, certificate):
    context = ssl.create_default_context(cafile=certificate)
    safe = Client(c.address, "secret", context)
    equal(safe.stats()["known"], 0)
    equal(Client(c.address, None, context).ask("GET", "/frontier/v1/stats")[0], 401)
    try:
        c.raw("GET", "/healthz")
    except (http.client.HTTPException, OSError):
        return
    raise AssertionError("it was answered without TLS")


def fits(schema, value, document, where):
    """Whether a value is what its description says: all that is told is described, and the other way round."""
    if "$ref" in schema:
        return fits(document["components"]["schemas"][schema["$ref"].split("/")[-1]], value, document, where)
    if "anyOf" in schema:
        [schema] = [one for one in schema["anyOf"] if (one.get("type") == "null") == (value is None)][:1]
        return fits(schema, value, document, where)
    kinds = schema.get("type", [])
    kind = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}.get(type(value))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kind is None:
        assert "number" in kinds or isinstance(value, int) and "integer" in kinds, (where, value, schema)
    elif kinds:
        assert kind in kinds, (where, value, schema)
    if isinstance(value, dict):
        equal(sorted(value), sorted(schema["properties"]), where)
        assert set(schema.get("required", [])) <= set(value), (where, schema)
        for name, inner in value.items():
            fits(schema["properties"][name], inner, document, f"{where}.{name}")
    if isinstance(value, list):
        for inner in value:
            fits(schema["items"], inner, document, f"{where}[]")
    if "enum" in schema:
        assert value in schema["enum"], (where, value)


def the_description_is_true(c, seed):
    document = c.good("GET", "/openapi.json")
    equal(document["openapi"], "3.1.0")
    met = set()

    def ask(method, path, what=None, **parts):
        operation = document["paths"][path][method.lower()]
        assert ("requestBody" in operation) == (what is not None), path
        actual = path
        for name, value in parts.items():
            actual = actual.replace("{" + name + "}", value)
        status, said = c.ask(method, actual, what)
        schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
        fits(schema, said, document, f"{method} {path}")
        met.add((path, method.lower()))
        return said

    ask("POST", "/frontier/v1/urls", {"urls": [seed, "ftp://x"]})
    ask("POST", "/frontier/v1/urls", {"urls": 7})
    [lease] = ask("GET", "/frontier/v1/next")["leases"]
    ask("POST", "/frontier/v1/heartbeat", {"visits": [lease["id"], "0-77"], "sent": [lease["id"]]})
    ask("PUT", "/frontier/v1/urls/{id}", {"outcome": "fetched", "status": 404}, id=lease["id"])
    ask("PUT", "/frontier/v1/urls/{id}", {"outcome": "fetched", "status": 404}, id="0-77")
    ask("PUT", "/frontier/v1/hosts/{host}/rate", {"delay": "2s"}, host=lease["host"])
    ask("GET", "/frontier/v1/hosts")
    ask("GET", "/frontier/v1/stats")
    everything = {(path, method) for path, methods in document["paths"].items() for method in methods}
    equal(met, everything)


def metrics_have_the_dashboards_names(c):
    status, _, text = c.raw("GET", "/metrics")
    equal(status, 200)
    for name in ["frontier_getURLs_calls_total", "frontier_getURLs_total", "frontier_getURLs_latency_seconds_count",
                 "frontier_putURLs_calls_total", "frontier_putDiscovered_calls_total", "frontier_putURLs_total",
                 "frontier_putURLs_ignored_total", "frontier_putURLs_completed_total", "lycosa_in_flight"]:
        assert re.search(rf"^{name} \d", text, re.M), (name, text)
    for discovered in ("true", "false"):
        assert f'frontier_putURLs_discovered_total{{discovered="{discovered}"}} 0' in text, text


if __name__ == "__main__":
    test, address = sys.argv[1:3]
    arguments = sys.argv[3:-1] if test == "crawl" else sys.argv[3:]
    globals()[test](Client(address), *arguments)
