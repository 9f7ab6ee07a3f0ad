"""What do an engine of its own and the zip of the standard library see in what lycosa exports?

    python table.py schema FILES      names and types of the columns, in order
    python table.py query FILES SQL   the rows of a query over the view `ccindex`
    python table.py wacz FILE         the members of a package, checked against its own digests

Prints JSON. FILES may have wildcards; folders like `crawl=…` become columns, as in Common Crawl's bucket.
Needs duckdb (PyPI).
"""

import gzip
import hashlib
import json
import sys
import zipfile


def connect(files):
    import duckdb

    engine = duckdb.connect()
    engine.execute("SET TimeZone='UTC'")
    # Names such as 0123456789 are no numbers, whatever they look like.
    source = f"read_parquet('{files}', hive_partitioning=true, hive_types={{'crawl': varchar, 'subset': varchar}})"
    plain = f"read_parquet('{files}')"
    hive = "crawl=" in files or "**" in files
    engine.execute(f"CREATE VIEW ccindex AS SELECT * FROM {source if hive else plain}")
    return engine


def wacz(path):
    with zipfile.ZipFile(path) as package:
        assert package.testzip() is None
        members = {info.filename: info for info in package.infolist()}
        assert all(info.compress_type == zipfile.ZIP_STORED for info in members.values())
        about = package.read("datapackage.json")
        said = json.loads(about)
        digest = json.loads(package.read("datapackage-digest.json"))
        assert digest["hash"] == "sha256:" + hashlib.sha256(about).hexdigest()
        named = {resource["path"]: resource for resource in said["resources"]}
        assert set(named) == set(members) - {"datapackage.json", "datapackage-digest.json"}
        for path, resource in named.items():
            content = package.read(path)
            assert resource["hash"] == "sha256:" + hashlib.sha256(content).hexdigest(), path
            assert resource["bytes"] == len(content), path
        index = package.read("indexes/index.cdx.gz")
        blocks = package.read("indexes/index.idx").decode().splitlines()
        assert blocks[0].startswith("!meta 0 ")
        lines = []
        for block in blocks[1:]:
            key, at, place = block.split(" ", 2)
            place = json.loads(place)
            member = index[place["offset"] : place["offset"] + place["length"]]
            assert place["digest"] == "sha256:" + hashlib.sha256(member).hexdigest()
            found = gzip.decompress(member).decode().splitlines()
            assert found[0].startswith(f"{key} {at} ")
            lines += found
        assert lines == sorted(lines, key=str.encode)
        captures = []
        for line in lines:
            entry = json.loads(line.split(" ", 2)[2])
            start = int(entry["offset"])
            record = package.read("archive/" + entry["filename"])[start : start + int(entry["length"])]
            head = gzip.decompress(record).split(b"\r\n\r\n", 1)[0].decode()
            assert f"WARC-Target-URI: {entry['url']}" in head, head
            captures.append(entry["url"])
        pages = [json.loads(line) for line in package.read("pages/pages.jsonl").splitlines()]
        assert pages[0]["format"] == "json-pages-1.0"
        return {
            "version": said["wacz_version"],
            "members": sorted(members),
            "captures": sorted(captures),
            "pages": sorted(page["url"] for page in pages[1:]),
        }


def main():
    what, files = sys.argv[1:3]
    if what == "wacz":
        print(json.dumps(wacz(files)))
        return
    engine = connect(files)
    if what == "schema":
        rows = engine.execute("DESCRIBE ccindex").fetchall()
        print(json.dumps([[name, kind] for name, kind, *_ in rows]))
    else:
        rows = engine.execute(sys.argv[3]).fetchall()
        print(json.dumps(rows, default=str))


main()
