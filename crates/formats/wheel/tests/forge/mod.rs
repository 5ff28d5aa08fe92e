//! Wheels like those of other tools, good and bad, made with Python's zipfile.
#![allow(dead_code, reason = "each test program uses its part of this module")]

use std::path::{Path, PathBuf};

use rocwheel_fixtures::python;

/// The name of every forged wheel.
pub const NAME: &str = "pkg-1.0-py3-none-any.whl";

/// The names that a script can use: `wheel`, an open ZIP file; `put(name, bytes, mode, **more)`
/// adds a member; `texts(record)` adds METADATA, WHEEL and RECORD.
const PRELUDE: &str = r"
import base64, csv, hashlib, io, struct, sys, zipfile
path = sys.argv[1]
wheel = zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED)
INFO = 'pkg-1.0.dist-info/'
def put(name, data, mode=0o100644, method=zipfile.ZIP_DEFLATED, system=3, into=None):
    info = zipfile.ZipInfo(name, (2020, 2, 2, 2, 2, 2))
    info.external_attr, info.compress_type, info.create_system = mode << 16 | 0x20 * (not mode), method, system
    (into or wheel).writestr(info, data)
def good(data):
    return 'sha256=' + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')
def texts(record, into=None):
    put(INFO + 'METADATA', b'Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\n', into=into)
    put(INFO + 'WHEEL', b'Wheel-Version: 1.0\nGenerator: forge\nRoot-Is-Purelib: true\nTag: py3-none-any\n', into=into)
    put(INFO + 'RECORD', record, into=into)
def patch(old, new, count=-1):
    wheel.close()
    data = open(path, 'rb').read()
    assert old in data
    open(path, 'wb').write(data.replace(old, new, count))
";

/// Makes a wheel in `folder` with a script that uses the names of [`PRELUDE`].
pub fn forge(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join(NAME);
    python(&format!("{PRELUDE}\n{script}\nwheel.close()\n"), [&path]);
    path
}

/// Lets Python read every byte of a wheel and check its RECORD. Returns names, modes, methods and
/// flags.
pub fn listing(path: &Path) -> String {
    let script = r"
import base64, csv, hashlib, io, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
assert wheel.testzip() is None
names = wheel.namelist()
assert len(set(names)) == len(names)
record = [name for name in names if name.endswith('.dist-info/RECORD')][0]
rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(wheel.read(record).decode()))}
assert rows.pop(record) == ['', '']
assert sorted(rows) == sorted(name for name in names if name != record and not name.endswith('/')), rows
for name, (column, size) in rows.items():
    kind, value = column.split('=', 1)
    data = wheel.read(name)
    digest = base64.urlsafe_b64encode(hashlib.new(kind, data).digest()).decode().rstrip('=')
    assert digest == value and str(len(data)) == size, name
for info in wheel.infolist():
    print(info.filename, info.compress_type, oct(info.external_attr >> 16), info.flag_bits, info.date_time[0])
";
    python(script, [path])
}
