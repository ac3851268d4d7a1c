"""`caffe cache` and programs on a cache that another user may have written."""
import os
import shutil
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.path.join(ROOT, 'build', 'tools', 'caffe')
OTHER_USER = 65534

# A type of its own: the program cache keeps what a compiler makes of its texts.
REGISTER = '''
import sys
sys.path[:0] = %r
import caffe
caffe.register_type('float24', 24, 'small_float_value(code, 8, 15, 1)',
                    'small_float_code(v, 8, 15, 1)')
print('registered')
''' % (sys.path,)

# A library that a driver would load runs when it is loaded.
EVIL = '''#include <stdlib.h>
__attribute__((constructor)) static void f(void) { exit(99); }
void caffe_type_values() {} void caffe_type_codes() {} void *caffe_type_functions() { return 0; }
'''
REPLACE = '''
import hashlib, sqlite3, struct, sys
database, code = sqlite3.connect(sys.argv[1]), open(sys.argv[2], 'rb').read()
def framed(*parts):
    return hashlib.sha256(b''.join(struct.pack('>Q', len(p)) + p for p in parts)).digest()
rows = database.execute('SELECT key, build_log FROM programs').fetchall()
assert rows
for key, log in rows:
    database.execute('UPDATE programs SET binary = ?, checksum = ? WHERE key = ?',
                     (code, framed(key.encode(), b'built', bytes(log), code), key))
database.commit()
'''

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason='only root can give files away')
needs_tool = pytest.mark.skipif(not os.path.exists(TOOL), reason='the command caffe is not built')


def run(*command, **changes):
    environment = {name: value for name, value in os.environ.items()
                   if name not in ('CAFFE_CACHE', 'XDG_CACHE_HOME', 'CAFFE_LOG')}
    environment.update(CAFFE_LOG='warning', OCL_ICD_VENDORS='/nonexistent', **changes)
    return subprocess.run([*map(str, command)], env=environment, timeout=300, capture_output=True,
                          text=True, check=False)


def register(**changes):
    result = run(sys.executable, '-c', REGISTER, **changes)
    assert result.stdout == 'registered\n', result.stderr
    return result.stderr


@pytest.fixture
def cache(tmp_path):
    """A folder with a cache that holds a program."""
    if not shutil.which('c++'):
        pytest.skip('there is no compiler')
    tmp_path.chmod(0o755)
    folder = tmp_path / 'cache'
    folder.mkdir(mode=0o755)
    assert register(CAFFE_CACHE_DIR=str(folder)) == ''
    return folder


def poison(cache):
    source, library = cache.parent / 'evil.c', cache.parent / 'evil.so'
    source.write_text(EVIL)
    subprocess.run(['c++', '-x', 'c', '-shared', '-fPIC', '-o', library, source], check=True)
    subprocess.run([sys.executable, '-c', REPLACE, cache / 'programs.db', library], check=True)


def test_a_sound_cache_is_used(cache):
    poison(cache)
    # The test below would see nothing otherwise: a user's own cache runs what it holds.
    result = run(sys.executable, '-c', REGISTER, CAFFE_CACHE_DIR=str(cache))
    assert result.returncode == 99, result.stderr


@needs_tool
@pytest.mark.parametrize('case', [
    'group', 'others', 'file', 'log', 'above',
    *[pytest.param(case, marks=needs_root) for case in ('owner', 'file owner', 'above owner')]])
def test_code_that_others_may_have_written_does_not_run(cache, case):
    poison(cache)
    file = cache / 'programs.db'
    if case == 'log':
        file = cache / 'programs.db-wal'
        file.write_bytes(b'')
    bad = {'file': file, 'log': file, 'file owner': file, 'above': cache.parent,
           'above owner': cache.parent}.get(case, cache)
    if 'owner' in case:
        os.chown(bad, OTHER_USER, OTHER_USER)
    bad.chmod({'group': 0o775, 'others': 0o757, 'above': 0o777, 'file': 0o666, 'log': 0o622}.get(
        case, 0o755 if bad.is_dir() else 0o644))
    before = sorted(os.listdir(cache))
    wanted = ['program cache %s' % (cache / 'programs.db'), ' %s ' % bad,
              'mode %04o' % (bad.stat().st_mode & 0o7777), 'uid %d' % bad.stat().st_uid,
              'CAFFE_CACHE_DIR', 'continuing without it']
    if case != 'above owner':
        wanted.append('chown' if 'owner' in case else 'chmod')
    try:
        errors = [register(CAFFE_CACHE_DIR=str(cache)),
                  register(CAFFE_CACHE_DIR=str(cache), CAFFE_CACHE='ro')]
        for verb in (['list'], ['verify'], ['prune', '--all']):
            result = run(TOOL, 'cache', *verb, CAFFE_CACHE_DIR=str(cache))
            assert (result.returncode, result.stdout) == (1, ''), result.stderr
            errors.append(result.stderr)
        for text in errors:
            assert text.count('\n') == 1, text
            for part in wanted:
                assert part in text, text
        assert sorted(os.listdir(cache)) == before, 'the folder is left as it is'
    finally:
        os.chown(bad, os.geteuid(), os.getegid())


def test_a_full_folder_for_temporary_files_is_left_out(tmp_path):
    unshare = ['unshare', '--mount', 'sh', '-c',
               'mount -t tmpfs -o size=60k,mode=755 none "$0" || exit 77; '
               'head -c 60000 /dev/zero >"$0/filler"; exec "$@"', str(tmp_path)]
    if not shutil.which('unshare') or run(*unshare, 'true').returncode:
        pytest.skip('cannot mount a file system')
    if not shutil.which('c++'):
        pytest.skip('there is no compiler')
    result = run(*unshare, sys.executable, '-c', REGISTER, TMPDIR=str(tmp_path),
                 CAFFE_CACHE='off')
    assert result.stdout == 'registered\n', result.stderr


@needs_root
@needs_tool
def test_root_does_not_use_the_cache_of_a_user(tmp_path):
    tmp_path.chmod(0o755)
    home = tmp_path / 'home'
    for folder in (home, home / '.cache', home / '.cache' / 'cortado'):
        folder.mkdir(mode=0o755)
        os.chown(folder, OTHER_USER, OTHER_USER)
    result = run(TOOL, 'cache', 'list', HOME=str(home), CAFFE_CACHE_DIR='')
    assert result.returncode == 1 and 'uid %d' % OTHER_USER in result.stderr, result.stderr
    assert os.listdir(home / '.cache' / 'cortado') == []


@needs_root
def test_a_cache_that_root_made_serves_every_user(cache):
    for path in (cache, *cache.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for folder in cache.parents:  # those that pytest makes are private
        if 'pytest-of-' in str(folder):
            folder.chmod(0o755)
    become = 'import os; os.setgid(%d); os.setuid(%d)\n' % (OTHER_USER, OTHER_USER)
    code = REGISTER.replace('caffe.register_type', become + 'caffe.register_type')
    before = (cache / 'programs.db').stat().st_mtime_ns
    for mode in ('rw', 'ro'):
        # Without a compiler the type can come from the cache alone.
        result = run(sys.executable, '-c', code, CAFFE_CACHE_DIR=str(cache), CAFFE_CACHE=mode,
                     CAFFE_CXX='/nonexistent')
        assert result.stdout == 'registered\n', result.stderr
        assert 'not used' not in result.stderr, result.stderr
    assert (cache / 'programs.db').stat().st_mtime_ns == before
