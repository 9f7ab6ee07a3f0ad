"""Asks a frontier service from outside, as a crawler in another language does.

    python frontier.py TEST ADDRESS PROTO_FOLDER

The stubs are made from the .proto file at each run: nothing of the service's own code is used.
Each test begins with an empty service.
"""

import collections
import http.server
import importlib
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

import grpc
from google.protobuf import json_format


def stubs(folder):
    out = tempfile.mkdtemp()
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", "-I", folder, f"--python_out={out}",
         f"--grpc_python_out={out}", "urlfrontier.proto"],
        check=True,
    )
    sys.path.insert(0, out)
    return importlib.import_module("urlfrontier_pb2"), importlib.import_module("urlfrontier_pb2_grpc")


OK, SKIPPED, FAIL = 0, 1, 2


class Client:
    """The calls, with less to write."""

    def __init__(self, address, folder):
        self.pb, self.stubs = stubs(folder)
        self.channel = grpc.insecure_channel(address)
        self.stub = self.stubs.URLFrontierStub(self.channel)

    def narrow(self):
        """A connection of its own with 64 KiB of room for answers that are not read; usually that
        grows to megabytes as traffic does."""
        options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536)]
        return self.stubs.URLFrontierStub(grpc.insecure_channel(sys.argv[2], options))

    def info(self, url, key="", crawl="", **metadata):
        lists = {name: self.pb.StringList(values=values) for name, values in metadata.items()}
        return self.pb.URLInfo(url=url, key=key, crawlID=crawl, metadata=lists)

    def discovered(self, url, key="", crawl="", ID="", **metadata):
        info = self.info(url, key, crawl, **metadata)
        return self.pb.URLItem(discovered=self.pb.DiscoveredURLItem(info=info), ID=ID)

    def known(self, url, date, key="", crawl="", ID="", **metadata):
        info = self.info(url, key, crawl, **metadata)
        item = self.pb.KnownURLItem(info=info, refetchable_from_date=date)
        return self.pb.URLItem(known=item, ID=ID)

    def put(self, *items):
        """The statuses, in the order of the items; their IDs must differ."""
        acks = {ack.ID: ack.status for ack in self.stub.PutURLs(iter(items))}
        url = lambda item: getattr(item, item.WhichOneof("item")).info.url
        return [acks[item.ID or url(item)] for item in items]

    def get(self, urls=0, queues=0, key="", hold=0, **which):
        if "any" in which:
            which = {"anyCrawlID": self.pb.AnyCrawlID()}
        params = self.pb.GetParams(max_urls_per_queue=urls, max_queues=queues, key=key,
                                   delay_requestable=hold, **which)
        return list(self.stub.GetURLs(params))

    def urls(self, *args, **kwargs):
        return [info.url for info in self.get(*args, **kwargs)]

    def stats(self, key="", crawl=""):
        return self.stub.GetStats(self.pb.QueueWithinCrawlParams(key=key, crawlID=crawl))

    def queues(self, crawl="", **more):
        return list(self.stub.ListQueues(self.pb.Pagination(crawlID=crawl, **more)).values)

    def crawls(self):
        return sorted(self.stub.ListCrawls(self.pb.Local()).values)

    def delay(self, seconds, key="", crawl=""):
        self.stub.SetDelay(self.pb.QueueDelayParams(key=key, crawlID=crawl,
                                                    delay_requestable=seconds))

    def block(self, until, key, crawl=""):
        self.stub.BlockQueueUntil(self.pb.BlockQueueParams(key=key, crawlID=crawl, time=until))

    def limit(self, limit, key, crawl=""):
        self.stub.SetCrawlLimit(self.pb.CrawlLimitParams(key=key, crawlID=crawl, limit=limit))

    def status(self, url, key="", crawl=""):
        return self.stub.GetURLStatus(self.pb.URLStatusRequest(url=url, key=key, crawlID=crawl))

    def list(self, crawl="", key="", **more):
        return list(self.stub.ListURLs(self.pb.ListUrlParams(crawlID=crawl, key=key, **more)))

    def everything(self):
        """All URLs of all crawls, as the service lists them."""
        return [item for crawl in self.crawls() for item in self.list(crawl=crawl, size=2147483647)]

    def count(self, crawl="", key="", **more):
        return self.stub.CountURLs(self.pb.CountUrlParams(crawlID=crawl, key=key, **more)).value

    def code(self, call):
        """With which status a call fails."""
        try:
            call()
        except grpc.RpcError as error:
            return error.code()
        raise AssertionError("the call did not fail")


def equal(left, right):
    assert left == right, f"{left!r} is not {right!r}"


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def now():
    return int(time.time())


# ── names ────────────────────────────────────────────────────────────────────────────────────


def point_01_a_blank_crawl_is_the_default_one(c):
    equal(c.put(c.discovered("http://a.test/1", crawl=""), c.discovered("http://a.test/2", crawl=" ")), [OK, OK])
    equal(c.crawls(), ["DEFAULT"])
    equal(c.stats().crawlID, "DEFAULT")
    equal(c.stats(crawl="  ").size, 2)


def point_02_a_key_is_taken_from_the_url(c):
    urls = ["http://a.test:8080/x", "http://gac.icann.org?language_id=9", "b.test/x", "http://c.test&y"]
    equal(c.put(*[c.discovered(url) for url in urls]), [OK] * 4)
    equal(c.queues(), ["a.test", "b.test", "c.test", "gac.icann.org"])
    equal(sorted(info.key for info in c.get(urls=1)), c.queues(include_inactive=True))


def point_02_without_a_key_or_with_a_long_one_it_is_skipped(c):
    equal(c.put(
        c.discovered("/x"), c.discovered("http:///x"), c.discovered("http://a.test/", key="k" * 256),
        c.discovered("http://a.test/ok", key="k" * 255), c.discovered("u", key="ö" * 255)),
        [SKIPPED, SKIPPED, SKIPPED, OK, OK])
    equal(c.stats().numberOfQueues, 2)


def point_02_a_url_in_two_queues_is_two_urls(c):
    equal(c.put(c.discovered("http://a.test/", key="x", ID="1"), c.discovered("http://a.test/", key="y", ID="2")), [OK, OK])
    equal(c.put(c.discovered("http://a.test/", key="x", crawl="other")), [OK])
    equal(c.stats().size, 2)
    equal(c.stats(crawl="other").size, 1)


# ── puts ─────────────────────────────────────────────────────────────────────────────────────


def point_03_discovered_twice_is_skipped(c):
    item = c.discovered("http://a.test/")
    equal(c.put(item), [OK])
    equal(c.put(item), [SKIPPED])
    equal(c.urls(), ["http://a.test/"])
    equal(c.put(item), [SKIPPED])  # in flight
    c.put(c.known("http://a.test/", 0))
    equal(c.put(item), [SKIPPED])  # done with
    equal(c.stats().counts["completed"], 1)


def point_04_known_replaces_the_schedule(c):
    c.put(c.discovered("http://a.test/", m=["1"]))
    equal([i.metadata["m"].values[0] for i in c.get(hold=1000)], ["1"])
    equal(c.stats().inProcess, 1)
    equal(c.put(c.known("http://a.test/", now() + 500, m=["2"])), [OK])
    equal(c.stats().inProcess, 0)
    status = c.status("http://a.test/").known
    assert status.refetchable_from_date > now() + 400
    equal(list(status.info.metadata["m"].values), ["2"])
    equal(c.put(c.known("http://a.test/", 0)), [OK])
    equal(c.status("http://a.test/").known.refetchable_from_date, 0)
    equal((c.stats().size, c.stats().counts["completed"]), (0, 1))


def point_04_known_that_is_new_is_created(c):
    equal(c.put(c.known("http://a.test/1", 1), c.known("http://a.test/2", 0)), [OK, OK])
    equal((c.stats().size, c.stats().counts["completed"]), (1, 1))
    equal(c.urls(), ["http://a.test/1"])


def ack_id_or_url(c):
    acks = list(c.stub.PutURLs(iter([c.discovered("http://a.test/1", ID="me"), c.discovered("http://a.test/2")])))
    equal(sorted(ack.ID for ack in acks), ["http://a.test/2", "me"])


def point_03_a_batch_is_answered_in_order(c):
    batch = c.pb.DiscoveredBatch(ID="b", items=[
        c.info("http://a.test/1"), c.info("http://a.test/1"), c.info("/bad"), c.info("http://a.test/2")])
    probe = c.pb.DiscoveredBatch(ID="probe")
    acks = {ack.ID: list(ack.statuses) for ack in c.stub.PutDiscovered(iter([batch, probe]))}
    equal(acks, {"b": [OK, SKIPPED, SKIPPED, OK], "probe": []})


def item_without_content_is_skipped(c):
    equal([ack.status for ack in c.stub.PutURLs(iter([c.pb.URLItem(ID="x")]))], [SKIPPED])


# ── gets ─────────────────────────────────────────────────────────────────────────────────────


def point_05_order_is_date_then_url(c):
    c.put(c.known("http://a.test/c", 100), c.known("http://a.test/b", 200), c.known("http://a.test/a", 200),
          c.known("http://a.test/z", 50), c.known("http://a.test/future", now() + 900))
    equal(c.urls(), ["http://a.test/z", "http://a.test/c", "http://a.test/a", "http://a.test/b"])


def point_05_queues_take_turns(c):
    c.put(*[c.discovered(f"http://{host}.test/{n}") for host in "abc" for n in range(3)])
    served = [c.urls(urls=1, queues=1)[0].split("/")[2] for _ in range(3)]
    equal(sorted(served), ["a.test", "b.test", "c.test"])
    equal(c.urls(urls=1, queues=1), [])  # all rest


def point_05_a_rotation_ends(c):
    c.put(*[c.discovered(f"http://{host}.test/{n}") for host in "abc" for n in range(3)])
    equal(len(c.urls(urls=2)), 6)
    equal(c.stats().inProcess, 6)


def point_06_a_queue_is_not_served_within_its_delay(c):
    c.delay(2, key="")
    c.put(*[c.discovered(f"http://a.test/{n}") for n in range(3)])
    wait_for(lambda: time.time() % 1 < 0.3)  # a whole second is ahead of us
    first = now()
    equal(len(c.urls(urls=1)), 1)
    equal(c.urls(urls=9), [])
    wait_for(lambda: c.urls(urls=9))
    assert now() - first >= 3, "served before its delay was over"
    c.delay(0, key="a.test")
    c.put(c.discovered("http://a.test/new"))
    wait_for(lambda: c.urls(urls=99), 3)
    c.delay(4294967295, key="a.test")
    c.put(c.discovered("http://a.test/newer"))
    equal(c.urls(urls=99), [])


def point_06_held_urls_cap_a_queue(c):
    c.delay(0)
    c.put(*[c.discovered(f"http://a.test/{n}") for n in range(5)])
    equal(len(c.urls(urls=2)), 2)
    later = now() + 2
    wait_for(lambda: now() >= later)
    equal(c.urls(urls=2), [])  # two are in process
    equal(len(c.urls(urls=3)), 3)  # three more, though two are


def point_06_a_call_that_sends_nothing_does_not_use_up_the_window(c):
    c.delay(1000)
    c.put(c.discovered("http://a.test/1"), c.known("http://a.test/2", now() + 900))
    c.put(c.known("http://a.test/1", 0))
    equal(c.urls(), [])  # its turn has come, and nothing in it is due
    c.put(c.discovered("http://a.test/3"))
    equal(c.urls(), ["http://a.test/3"])
    c.put(c.discovered("http://a.test/4"))
    equal(c.urls(), [])  # it was served now


def point_06_an_aborted_call_uses_up_the_window(c):
    c.delay(1000)
    urls = [f"http://a.test/{n:05}".ljust(1000, "-") for n in range(3000)]
    c.put(*[c.discovered(url) for url in urls])
    stream = c.narrow().GetURLs(c.pb.GetParams(key="a.test", crawlID="DEFAULT", delay_requestable=1000))
    next(stream)
    stream.cancel()
    assert c.stats().inProcess < len(urls), "all was taken for one who has hung up"
    equal(c.urls(), [])
    # What nobody was given is there when the queue has rested, and only that.
    c.delay(0)
    served = []
    wait_for(lambda: served.extend(c.urls(hold=1000)) or served)
    equal(len(set(served)), len(served))
    equal(c.stats().inProcess, len(urls))


def point_07_a_lease_runs_out(c):
    c.delay(0)
    c.put(c.discovered("http://a.test/"))
    equal(len(c.urls(hold=2)), 1)
    equal(c.urls(hold=2), [])
    wait_for(lambda: c.urls(hold=1000) == ["http://a.test/"], 6)
    equal(c.urls(), [])


def point_07_a_lease_is_30_seconds_by_default(c):
    c.put(c.discovered("http://a.test/"), c.discovered("http://b.test/"))
    asked = time.time()
    equal(len(c.get()), 2)
    equal(c.stats().inProcess, 2)
    c.put(c.known("http://a.test/", 0))
    equal(c.stats().inProcess, 1)
    wait_for(lambda: c.stats().inProcess == 0, 60)
    # Whole seconds; a busy machine may look late.
    assert 29 <= time.time() - asked < 45, time.time() - asked


def point_01_a_key_without_its_crawl_gets_nothing(c):
    c.put(c.discovered("http://a.test/"))
    equal(c.urls(key="a.test"), [])
    equal(c.urls(key="a.test", any=True), [])
    equal(c.urls(crawlID=""), [])  # un-normalised without a key
    equal(c.urls(key="a.test", crawlID=""), ["http://a.test/"])


def point_01_any_crawl_spans_all(c):
    c.put(c.discovered("http://a.test/", crawl="x"), c.discovered("http://b.test/", crawl="y"))
    equal(sorted(c.urls(any=True)), ["http://a.test/", "http://b.test/"])
    c.put(c.discovered("http://c.test/", crawl="x"), c.discovered("http://d.test/", crawl="y"))
    equal(c.urls(crawlID="y"), ["http://d.test/"])


def answer_names_queue_crawl_and_metadata(c):
    c.put(c.discovered("http://a.test/", crawl="x", depth=["3"], tags=["a", "b"]))
    [info] = c.get()
    equal((info.url, info.key, info.crawlID), ("http://a.test/", "a.test", "x"))
    equal({name: list(values.values) for name, values in info.metadata.items()},
          {"depth": ["3"], "tags": ["a", "b"]})


def point_06_a_blocked_queue_waits(c):
    c.put(c.discovered("http://a.test/"), c.discovered("http://b.test/"))
    c.block(now() + 1000, "a.test")
    equal(c.urls(), ["http://b.test/"])
    equal(c.queues(), ["b.test"])
    equal(c.queues(include_inactive=True), ["a.test", "b.test"])
    c.block(0, "a.test")
    equal(c.urls(), ["http://a.test/"])
    c.block(now() + 1000, "unknown")  # no error, nothing made
    equal(c.stats().numberOfQueues, 2)


def point_06_a_queue_at_its_limit_waits(c):
    c.delay(0)
    c.put(*[c.discovered(f"http://a.test/{n}") for n in range(4)])
    c.limit(1, "a.test")
    equal(len(c.urls(urls=1)), 1)
    c.put(c.known("http://a.test/0", 0))
    later = now() + 2
    wait_for(lambda: now() >= later)
    equal(c.urls(urls=1), [])
    equal(c.put(c.discovered("http://a.test/more")), [OK])
    c.limit(0, "a.test")
    equal(len(c.urls(urls=1)), 1)


def limit_of_unknown_queue_fails(c):
    equal(c.code(lambda: c.limit(1, "nobody")), grpc.StatusCode.UNKNOWN)
    equal(c.code(lambda: c.limit(1, "")), grpc.StatusCode.UNKNOWN)


def inactive_serves_nothing_and_takes_all(c):
    c.put(c.discovered("http://a.test/1"))
    c.stub.SetActive(c.pb.Active(state=False))
    equal(c.stub.GetActive(c.pb.Local()).state, False)
    equal(c.urls(), [])
    equal(c.put(c.discovered("http://a.test/2")), [OK])
    c.stub.SetActive(c.pb.Active(state=True))
    equal(len(c.urls()), 2)


# ── streams that nobody reads ────────────────────────────────────────────────────────────────


def written_without_reading(c, call, messages, under_way_max):
    """How many messages a client can write who reads no answer, each of which brings one URL. Then
    he reads them after all.

    The service has taken what is under way, and what was answered and lies in the buffers between
    the two: 64 KiB in the window, and a little more in front of it.
    """
    handed = 0

    def counted():
        nonlocal handed
        for message in messages:
            handed += 1
            yield message

    answers = getattr(c.narrow(), call)(counted())
    still_since, before = time.monotonic(), None
    end = still_since + 60
    while time.monotonic() < still_since + 2:
        seen = (handed, c.stats().size)
        if seen != before:
            still_since, before = time.monotonic(), seen
        answered = 2 * 65_536 // messages[0].ByteSize()
        assert seen[1] <= under_way_max + answered, f"{seen[1]} were taken of one who reads no answer"
        assert time.monotonic() < end, f"it goes on and on: {seen}"
        time.sleep(0.05)
    assert handed < len(messages), "all could be written"
    assert c.stats().size > 0, "nothing was taken"
    equal(sum(1 for _ in answers), len(messages))
    equal(c.stats().size, len(messages))
    return before


def point_08_items_of_one_who_reads_no_answer_are_not_read(c):
    items = [c.discovered(f"http://a.test/{n}", ID=f"{n:05}".ljust(500, "-")) for n in range(10_000)]
    written_without_reading(c, "PutURLs", items, 1024)


def point_08_batches_of_one_who_reads_no_answer_are_not_read(c):
    batch = lambda n: c.pb.DiscoveredBatch(ID=f"{n:05}".ljust(32_000, "-"), items=[c.info(f"http://a.test/{n}")])
    written_without_reading(c, "PutDiscovered", [batch(n) for n in range(300)], 16)


# ── questions ────────────────────────────────────────────────────────────────────────────────


def point_09_one_node_names_itself(c):
    [node] = c.stub.ListNodes(c.pb.Empty()).values
    assert node.startswith("127.0.0.1:"), node


def stats_of_queue_and_crawl(c):
    c.put(*[c.discovered(f"http://a.test/{n}") for n in range(3)], c.known("http://b.test/", 0))
    c.get(urls=2)
    whole, one, none = c.stats(), c.stats(key="a.test"), c.stats(key="nobody", crawl="none")
    equal((whole.size, whole.inProcess, whole.numberOfQueues), (3, 2, 2))
    equal(dict(whole.counts), {"completed": 1, "active_queues": 1})
    equal((one.size, one.numberOfQueues, dict(one.counts)), (3, 1, {"completed": 0, "active_queues": 1}))
    equal((none.size, none.numberOfQueues, none.crawlID), (0, 0, "none"))
    equal(dict(none.counts), {"completed": 0, "active_queues": 0})


def queues_are_paged(c):
    c.put(*[c.discovered(f"http://h{n:03}.test/") for n in range(250)])
    equal(len(c.queues()), 100)
    page = c.stub.ListQueues(c.pb.Pagination(start=240, size=50))
    equal((len(page.values), page.start, page.size, page.total, page.crawlID), (10, 240, 10, 0, "DEFAULT"))
    equal(c.queues(start=999), [])
    equal(c.queues(crawl="none"), [])


def status_of_urls(c):
    c.put(c.discovered("http://a.test/", m=["x"]), c.known("http://a.test/done", 0, m=["y"]))
    item = c.status("http://a.test/")
    equal(item.WhichOneof("item"), "known")
    assert abs(item.known.refetchable_from_date - now()) < 30 and abs(item.creation_date - now()) < 30
    equal(list(item.known.info.metadata["m"].values), ["x"])
    done = c.status("http://a.test/done", key="a.test")
    equal((done.known.refetchable_from_date, len(done.known.info.metadata)), (0, 0))
    equal(c.code(lambda: c.status("http://a.test/none")), grpc.StatusCode.NOT_FOUND)
    equal(c.code(lambda: c.status("http://a.test/", crawl="none")), grpc.StatusCode.NOT_FOUND)
    equal(c.code(lambda: c.status("/x")), grpc.StatusCode.INVALID_ARGUMENT)


def creation_date_is_kept(c):
    c.put(c.discovered("http://a.test/"))
    made = c.status("http://a.test/").creation_date
    later = now() + 2
    wait_for(lambda: now() >= later)
    c.put(c.known("http://a.test/", now() + 99))
    equal(c.status("http://a.test/").creation_date, made)


def urls_are_listed_and_counted(c):
    c.put(*[c.discovered(f"http://a.test/Page{n}") for n in range(120)], c.known("http://b.test/page", 0))
    equal(len(c.list()), 100)
    everything = c.list(size=2147483647)
    equal(len(everything), 121)
    assert all(item.WhichOneof("item") == "known" for item in everything)
    equal(len(c.list(start=115, size=100)), 6)
    equal([i.known.info.url for i in c.list(filter="b.test/p")], ["http://b.test/page"])
    equal((c.count(), c.count(key="a.test"), c.count(key="none"), c.count(crawl="none")), (121, 120, 0, 0))
    equal((c.count(filter="page"), c.count(filter="page", ignoreCase=True)), (1, 121))
    equal(c.list(crawl="none"), [])


# ── deletions ────────────────────────────────────────────────────────────────────────────────


def queue_is_deleted(c):
    c.put(c.discovered("http://a.test/1"), c.known("http://a.test/2", 0), c.discovered("http://b.test/"))
    params = c.pb.QueueWithinCrawlParams(key="a.test")
    equal(c.stub.DeleteQueue(params).value, 2)
    equal(c.stub.DeleteQueue(params).value, 0)
    equal((c.stats().numberOfQueues, c.count()), (1, 1))
    equal(c.put(c.discovered("http://a.test/1")), [OK])
    equal(sorted(c.urls()), ["http://a.test/1", "http://b.test/"])


def crawl_is_deleted(c):
    c.put(c.discovered("http://a.test/1", crawl="x"), c.discovered("http://b.test/", crawl="y"))
    equal(c.stub.DeleteCrawl(c.pb.DeleteCrawlMessage(value="x")).value, 1)
    equal(c.stub.DeleteCrawl(c.pb.DeleteCrawlMessage(value="none")).value, 0)
    equal(c.crawls(), ["y"])
    equal(c.count(crawl="x"), 0)
    equal(c.put(c.discovered("http://a.test/1", crawl="x")), [OK])


def old_urls_are_purged(c):
    c.put(c.discovered("http://a.test/1"), c.known("http://a.test/2", 0), c.discovered("http://b.test/"))
    purge = lambda **more: c.stub.PurgeURLs(c.pb.PurgeUrlParams(**more)).value
    equal((purge(days=1), purge(days=0, key="none"), purge(days=0, crawlID="none")), (0, 0, 0))
    equal(purge(days=0, key="a.test"), 2)
    equal((c.count(), c.stats(key="a.test").size, c.stats().numberOfQueues), (1, 0, 2))
    equal(c.urls(), ["http://b.test/"])


def log_level_is_set(c):
    for package, level in [("", 0), ("crawlercommons.urlfrontier", 3), ("service", 1), ("", 4)]:
        c.stub.SetLogLevel(c.pb.LogLevelParams(package=package, level=level))


# ── bad input ────────────────────────────────────────────────────────────────────────────────


def oversized_message_is_refused(c):
    big = c.pb.DiscoveredBatch(ID="big", items=[c.info("http://a.test/" + "x" * 5_000_000)])
    code = c.code(lambda: list(c.stub.PutDiscovered(iter([big]))))
    assert code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OUT_OF_RANGE), code
    equal(c.put(c.discovered("http://a.test/")), [OK])


def long_url_is_skipped(c):
    equal(c.put(c.discovered("http://a.test/" + "x" * 40_000, ID="x")), [SKIPPED])


def bad_utf8_is_refused(c):
    send = c.channel.stream_stream("/urlfrontier.URLFrontier/PutURLs")
    # A discovered item (1) with an info (1) whose url (1) is no UTF-8.
    message = b"\x0a\x06\x0a\x04\x0a\x02\xff\xfe"
    code = c.code(lambda: list(send(iter([message]))))
    assert code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT), code
    equal(c.put(c.discovered("http://a.test/")), [OK])


def long_stream_flows(c, count):
    count = int(count)
    items = (c.discovered(f"http://h{n % 1000}.test/{n}") for n in range(count))
    equal(sum(ack.status == OK for ack in c.stub.PutURLs(items)), count)
    equal((c.stats().size, c.stats().numberOfQueues), (count, 1000))


def slow_reader_gets_all(c, count):
    """Of the URLs of the long stream, each once."""
    count, served = int(count), bytearray(int(count))
    stream = c.narrow().GetURLs(c.pb.GetParams(crawlID="DEFAULT", delay_requestable=3600))
    next_one = lambda: int(next(stream).url.rpartition("/")[2])
    for _ in range(20):
        served[next_one()] += 1
        time.sleep(0.05)
    held = c.stats().inProcess
    assert 20 <= held < 10_000, f"{held} are held for one who reads 20 a second"
    for info in stream:
        served[int(info.url.rpartition("/")[2])] += 1
    equal((served.count(1), c.stats().inProcess), (count, count))


def slow_reader_does_not_stop_others(c):
    c.put(*[c.discovered(f"http://a.test/{n:05}") for n in range(20_000)])
    stream = c.narrow().GetURLs(c.pb.GetParams(key="a.test", crawlID="DEFAULT"))
    next(stream)
    equal(c.put(c.discovered("http://b.test/")), [OK])
    assert 0 < c.stats(key="a.test").inProcess < 20_000, "all was taken for one who does not read"
    equal(sum(1 for _ in stream), 19_999)


def reflection_describes_the_service(c):
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass
    database = ProtoReflectionDescriptorDatabase(c.channel)
    assert "urlfrontier.URLFrontier" in database.get_services()
    pool = DescriptorPool(database)
    service = pool.FindServiceByName("urlfrontier.URLFrontier")
    equal(len(service.methods), 19)
    # A generic client: nothing of it comes from the .proto file.
    method = service.FindMethodByName("GetStats")
    ask = c.channel.unary_unary(
        "/urlfrontier.URLFrontier/GetStats",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=GetMessageClass(method.output_type).FromString)
    equal(ask(GetMessageClass(method.input_type)()).crawlID, "DEFAULT")


def health_is_told(c):
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    stub = health_pb2_grpc.HealthStub(c.channel)
    for name in ("", "urlfrontier.URLFrontier"):
        equal(stub.Check(health_pb2.HealthCheckRequest(service=name)).status, 1)


# ── clients ──────────────────────────────────────────────────────────────────────────────────


def point_11_stormcrawler_asks_for_ten_urls_of_ten_queues(c):
    """It names a queue also where a URL belongs to none, and asks with the time of its topology."""
    keyed = [c.discovered(f"http://h{q:02}.test/{n:02}", f"h{q:02}.test") for q in range(15) for n in range(12)]
    loose = [c.discovered(f"http://l{n:02}.test/", "_DEFAULT_") for n in range(12)]
    equal(c.put(*keyed, *loose), [OK] * 192)
    ask = lambda: c.get(urls=10, queues=10, hold=300, crawlID="DEFAULT")
    first, second = ask(), ask()
    by_key = lambda infos: collections.Counter(info.key for info in infos)
    equal((sorted(by_key(first).values()), sorted(by_key(second).values())), ([10] * 10, [10] * 6))
    equal(len(by_key(first + second)), 16)
    equal(sorted(i.url for i in first + second if i.key == "_DEFAULT_"),
          [f"http://l{n:02}.test/" for n in range(10)])
    # All is reported: fetched, and due again tomorrow.
    fetched = [c.known(i.url, now() + 86_400, i.key, "DEFAULT", status=["FETCHED"]) for i in first + second]
    equal(c.put(*fetched), [OK] * 160)
    equal(c.put(*keyed[:12], *loose), [SKIPPED] * 24)
    # What is left comes when the queues have rested, and tomorrow's not at all.
    rest = []
    wait_for(lambda: rest.extend(ask()) or len(rest) >= 32)
    equal((len(rest), set(by_key(rest).values())), (32, {2}))
    equal(c.stats().inProcess, 32)


def dump_as_lines(c, file):
    """What the tools of URLFrontier write: one URLItem in the JSON of protocol buffers a line."""
    c.put(c.discovered("http://a.test/1", depth=["3"], text=["two\nlines", "ü", ""]),
          c.discovered("http://a.test/\u2028", key="other"), c.known("http://a.test/2", now() + 5000, m=["x"]),
          c.known("http://b.test/", 0), c.discovered("http://a.test/1", key="other", crawl="more", ID="again"))
    with open(file, "w", encoding="utf-8") as lines:
        for item in c.everything():
            lines.write(json_format.MessageToJson(item, indent=None) + "\n")
    with open(file, encoding="utf-8") as lines:
        objects = [json.loads(line) for line in lines]
    equal(len(objects), 5)
    [one] = [o for o in objects if o["known"]["info"]["url"] == "http://a.test/2"]
    date = one["known"]["refetchableFromDate"]
    assert int(date) > now() + 4000 and abs(int(one["creationDate"]) - now()) < 60, one
    equal(one, {"creationDate": one["creationDate"], "known": {"refetchableFromDate": date, "info": {
        "url": "http://a.test/2", "key": "a.test", "crawlID": "DEFAULT", "metadata": {"m": {"values": ["x"]}}}}})


def lines_are_put_back(c, file):
    """All is as it was, but for the dates of creation, which are the service's own."""
    with open(file, encoding="utf-8") as lines:
        items = [json_format.Parse(line, c.pb.URLItem()) for line in lines]
    for item in items:
        item.creation_date = 7
    equal([ack.status for ack in c.stub.PutURLs(iter(items))], [OK] * 5)
    there = c.everything()
    assert all(abs(item.creation_date - now()) < 60 for item in there), there
    for item in there:
        item.creation_date = 7
    in_order = lambda items: sorted(json_format.MessageToJson(item, sort_keys=True) for item in items)
    equal(in_order(there), in_order(items))


def metrics_count_what_was_asked(c, rest):
    def metrics():
        text = urllib.request.urlopen(f"http://{rest}/metrics").read().decode()
        return {name: float(value) for name, value in re.findall(r"^(frontier_\S+) (\S+)$", text, re.M)}

    equal({value for name, value in metrics().items() if "latency" not in name}, {0.0})
    c.put(*[c.discovered(f"http://{host}.test/{n}") for host in "abc" for n in range(4)])
    c.put(c.discovered("http://a.test/0"), c.discovered("/no key"), c.known("http://d.test/later", now() + 900))
    batches = [c.pb.DiscoveredBatch(ID=str(n), items=[c.info("http://b.test/0"), c.info(f"http://e.test/{n}")])
               for n in range(2)]
    list(c.stub.PutDiscovered(iter(batches)))
    served = c.get(urls=2, queues=3) + c.get(urls=2)
    equal(len(served), 8)
    equal(c.get(urls=2), [])
    c.put(*[c.known(info.url, 0, info.key) for info in served])
    told = metrics()
    took = told["frontier_getURLs_latency_seconds_sum"]
    assert 0 < took < 30, took
    equal({name: value for name, value in told.items() if "bucket" not in name and "_sum" not in name}, {
        "frontier_getURLs_calls_total": 3,
        "frontier_getURLs_total": 8,
        "frontier_getURLs_latency_seconds_count": 3,
        "frontier_putURLs_calls_total": 3,
        "frontier_putDiscovered_calls_total": 1,
        "frontier_putURLs_total": 12 + 3 + 4 + 8,
        'frontier_putURLs_discovered_total{discovered="true"}': 12 + 1 + 4,
        'frontier_putURLs_discovered_total{discovered="false"}': 1 + 8,
        "frontier_putURLs_ignored_total": 2 + 2,
        "frontier_putURLs_completed_total": 8,
    })


# ── kept over a kill ─────────────────────────────────────────────────────────────────────────


def before_a_kill(c):
    c.put(*[c.discovered(f"http://a.test/{n}", n=[str(n)]) for n in range(3)], c.discovered("http://b.test/"),
          c.discovered("http://c.test/"), c.known("http://d.test/", 0), c.discovered("http://d.test/2"))
    equal(len(c.urls(key="a.test", crawlID="DEFAULT", urls=2, hold=1000)), 2)
    c.block(now() + 1000, "b.test")
    c.delay(1000, key="a.test")
    c.limit(1, "d.test")
    c.delay(7)
    c.put(c.discovered("http://z.test/", crawl="other"))
    c.stub.DeleteQueue(c.pb.QueueWithinCrawlParams(key="c.test"))
    c.stub.SetActive(c.pb.Active(state=False))


def after_a_kill(c):
    equal(c.stub.GetActive(c.pb.Local()).state, False)
    c.stub.SetActive(c.pb.Active(state=True))
    equal(c.crawls(), ["DEFAULT", "other"])
    stats = c.stats()
    equal((stats.size, stats.inProcess, stats.counts["completed"], stats.numberOfQueues), (5, 2, 1, 3))
    # a.test was served and rests for long, b.test is blocked, d.test is at its limit.
    equal(c.urls(), ["http://z.test/"])
    c.delay(0, key="a.test")
    served = []
    wait_for(lambda: served.extend(c.get()) or served)  # not in the second of the last serving
    equal([(i.url, list(i.metadata["n"].values)) for i in served], [("http://a.test/2", ["2"])])
    equal(c.put(c.discovered("http://a.test/0")), [SKIPPED])
    c.put(c.discovered("http://z.test/2", crawl="other"))
    equal(c.urls(crawlID="other"), [])  # seven seconds, as all queues


def put_until_killed(c, file):
    """Writes down what was acknowledged, until nobody answers any more."""
    with open(file, "w") as acked:
        items = (c.discovered(f"http://h{n % 97}.test/{n}") for n in range(10_000_000))
        try:
            for ack in c.stub.PutURLs(items):
                equal(ack.status, OK)
                acked.write(ack.ID + "\n")
                acked.flush()
        except grpc.RpcError as error:
            equal(error.code(), grpc.StatusCode.UNAVAILABLE)
            return
    raise AssertionError("it was not killed")


def what_was_acknowledged_is_there(c, file):
    with open(file) as acked:
        urls = acked.read().split()
    there = {item.known.info.url for item in c.list(size=2147483647)}
    lost = [url for url in urls if url not in there]
    assert urls and not lost, f"{len(lost)} of {len(urls)} were lost: {lost[:3]}"
    # What is counted is what is there, and all of it is served, each once.
    equal((c.stats().size, c.count()), (len(there), len(there)))
    served = c.urls(hold=1000)
    equal((len(served), set(served)), (len(there), there))


def keep_a_stream_open(c, file):
    """Until the service ends it."""
    def items():
        yield c.discovered("http://a.test/")
        time.sleep(60)
    try:
        for ack in c.stub.PutURLs(items()):
            open(file, "w").write(ack.ID + "\n")
    except grpc.RpcError:
        return
    raise AssertionError("the service did not end it")


def one_is_there(c):
    equal((c.stats().size, c.count()), (1, 1))


# ── who may ask ──────────────────────────────────────────────────────────────────────────────


def token_and_tls(c, certificate):
    """Nobody without the token, and nobody without TLS."""
    with open(certificate, "rb") as file:
        roots = grpc.ssl_channel_credentials(file.read())
    address = sys.argv[2].replace("127.0.0.1", "localhost")
    channel = grpc.secure_channel(address, roots)
    ask = channel.unary_unary("/urlfrontier.URLFrontier/GetStats", response_deserializer=bytes)
    send = lambda *metadata: ask(b"", metadata=metadata)
    equal(c.code(lambda: send()), grpc.StatusCode.UNAUTHENTICATED)
    equal(c.code(lambda: send(("authorization", "Bearer wrong"))), grpc.StatusCode.UNAUTHENTICATED)
    send(("authorization", "Bearer secret"))
    equal(c.code(lambda: c.stats()), grpc.StatusCode.UNAVAILABLE)  # plain


# ── the document ─────────────────────────────────────────────────────────────────────────────


def the_documents_example_works(c, document):
    import contextlib, io, threading
    server = http.server.HTTPServer(("127.0.0.1", 0), Hello)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with open(document) as file:
        code = re.search(r"```python\n(.*?)```", file.read(), re.S)[1]
    assert len(code.strip().splitlines()) <= 12
    code = code.replace("127.0.0.1:7071", sys.argv[2])
    code = code.replace("http://example.org/", f"http://127.0.0.1:{server.server_port}/")
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(code, {})
    equal(said.getvalue(), "[0]\n5 [0]\n")
    equal(c.stats().counts["completed"], 1)


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    test, address, folder = sys.argv[1:4]
    globals()[test](Client(address, folder), *sys.argv[4:])
