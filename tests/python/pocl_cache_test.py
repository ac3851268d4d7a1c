"""PoCL compiles by way of files, Cortado keeps programs. Neither needs a home or a disk that can be
written, and neither runs code that other users may have written."""
import os
import re
import shutil
import subprocess
import sys

import pytest

import caffe

POCL = [device.name for device in caffe.devices()
        if device.name.startswith('opencl') and 'PoCL' in device.driver]

# A device, the folder that PoCL uses, and a program that no cache has yet.
NET = '''
import os, sys
sys.path[:0] = %r
import caffe
caffe.set_device(sys.argv[1])
BEFORE
net = caffe.Net(sys.argv[2], caffe.TEST)
net.blobs['x'].data[...] = 2
print('y', net.forward()['y'].ravel().tolist())
''' % (sys.path,)
PROTOTXT = '''
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 } } }
layer { name: "power" type: "Power" bottom: "x" top: "y" power_param { scale: 3 } }
'''


def run(tmp_path, device, before='', **changes):
    """What a child prints to standard output and to standard error, and its status."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ('HOME', 'XDG_CACHE_HOME', 'CAFFE_CACHE_DIR', 'POCL_CACHE_DIR',
                                   'CAFFE_LOG')}
    environment.update(CAFFE_LOG='warning', **changes)
    (tmp_path / 'net.prototxt').write_text(PROTOTXT)
    result = subprocess.run([sys.executable, '-c', NET.replace('BEFORE', before), device,
                             str(tmp_path / 'net.prototxt')], env=environment, timeout=300,
                            capture_output=True, text=True)
    return result.stdout, result.stderr, result.returncode


def replacement(errors):
    return re.search(r'its programs go to (/\S+) until', errors).group(1)


@pytest.mark.skipif(not POCL, reason='there is no PoCL')
@pytest.mark.parametrize('below', ['', '/deeper'])
def test_a_folder_that_cannot_be_written_is_replaced_with_one_warning(tmp_path, below):
    # Root may write into read-only folders, but not into a file.
    place = tmp_path / 'file'
    place.write_text('')
    output, errors, code = run(tmp_path, POCL[0], POCL_CACHE_DIR=str(place) + below,
                               CAFFE_CACHE='off')
    assert code == 0 and 'y [6.0, 6.0, 6.0]' in output, output + errors
    assert errors.count('\n') == 1, errors
    assert "PoCL's cache folder %s%s cannot be written" % (place, below) in errors, errors
    assert 'set POCL_CACHE_DIR to a permanent folder' in errors, errors
    assert not os.path.exists(replacement(errors)), 'it goes with the process'


@pytest.mark.skipif(not POCL, reason='there is no PoCL')
@pytest.mark.parametrize('case', ['group', 'others', 'above', 'owner', 'program'])
def test_a_folder_that_others_can_write_is_replaced_with_one_warning(tmp_path, case):
    other_user = 65534
    if case in ('owner', 'program') and os.geteuid() != 0:
        pytest.skip('only root can give files to other users')
    place = tmp_path / 'above' / 'pocl'
    place.mkdir(parents=True, mode=0o755)
    bad = {'above': place.parent, 'program': place / 'AB'}.get(case, place)
    bad.mkdir(exist_ok=True)
    if case in ('owner', 'program'):
        os.chown(bad, other_user, other_user)
    bad.chmod({'group': 0o775, 'others': 0o757, 'above': 0o777}.get(case, 0o755))
    output, errors, code = run(tmp_path, POCL[0], POCL_CACHE_DIR=str(place), CAFFE_CACHE='off')
    assert code == 0 and 'y [6.0, 6.0, 6.0]' in output, output + errors
    assert errors.count('\n') == 1, errors
    reason = "PoCL's cache folder %s is not used, because the folder %s " % (place, bad)
    assert reason in errors, errors
    cure = {'group': 'chmod -R g-w', 'others': 'chmod -R o-w', 'above': 'chmod go-w'}
    assert cure.get(case, 'chown -R %d' % os.geteuid()) in errors, errors
    assert list(place.iterdir()) == ([bad] if case == 'program' else []), 'nothing is made there'
    assert not os.path.exists(replacement(errors)), 'it goes with the process'


@pytest.mark.skipif(not POCL, reason='there is no PoCL')
def test_devices_stay_where_root_has_rights_that_do_not_help(tmp_path):
    output, errors, code = run(tmp_path, POCL[0], HOME='/proc/none')
    assert code == 0 and 'y [6.0, 6.0, 6.0]' in output, output + errors
    assert errors.count('\n') == 2, errors
    assert "PoCL's cache folder /proc/none/.cache/pocl/kcache cannot be written" in errors, errors
    assert 'program cache /proc/none' in errors, errors


@pytest.mark.skipif(not POCL, reason='there is no PoCL')
@pytest.mark.parametrize('when', ['before', 'later'])
def test_a_full_folder_of_pocl_is_named(tmp_path, when):
    place = tmp_path / 'disk'
    place.mkdir(mode=0o755)
    unshare = ['unshare', '--mount', 'sh', '-c',
               'mount -t tmpfs -o size=200k,mode=755 none "$0" || exit 77; exec "$@"', str(place)]
    if not shutil.which('unshare') or subprocess.run([*unshare, 'true'], check=False).returncode:
        pytest.skip('cannot mount a file system')
    fill = 'open(%r, "wb").write(bytes(190000))' % str(place / 'filler')
    before, later = (fill, '') if when == 'before' else ('', fill)
    (tmp_path / 'net.prototxt').write_text(PROTOTXT)
    environment = {name: value for name, value in os.environ.items() if name != 'XDG_CACHE_HOME'}
    environment.update(CAFFE_LOG='warning', CAFFE_CACHE='off', POCL_CACHE_DIR=str(place))
    code = before + NET.replace('BEFORE', later)
    result = subprocess.run([*unshare, sys.executable, '-c', code, POCL[0],
                             str(tmp_path / 'net.prototxt')], env=environment, timeout=300,
                            capture_output=True, text=True, check=False)
    if when == 'before':
        assert result.returncode == 0 and 'y [6.0, 6.0, 6.0]' in result.stdout, result.stderr
        assert "PoCL's cache folder %s cannot be written" % place in result.stderr, result.stderr
        assert 'No space left on device' in result.stderr, result.stderr
        return
    assert result.returncode != 0, result.stdout
    first = [line for line in result.stderr.split('\n') if 'does not build' in line][-1]
    for part in ('power', 'CL_BUILD_PROGRAM_FAILURE', "PoCL's cache folder %s" % place,
                 'No space left on device'):
        assert part in first, result.stderr
    assert 'set POCL_CACHE_DIR to' in result.stderr, result.stderr


@pytest.mark.skipif(not POCL, reason='there is no PoCL')
def test_a_home_that_cannot_be_written_is_two_warnings(tmp_path):
    home = tmp_path / 'home'
    home.write_text('')
    output, errors, code = run(tmp_path, POCL[0], HOME=str(home))
    assert code == 0 and 'y [6.0, 6.0, 6.0]' in output, output + errors
    assert errors.count('\n') == 2, errors
    assert "PoCL's cache folder %s/.cache/pocl/kcache" % home in errors, errors
    assert 'program cache %s' % home in errors, errors


@pytest.mark.skipif(not POCL, reason='there is no PoCL')
def test_a_folder_that_is_lost_later_is_named_by_the_error(tmp_path):
    place = tmp_path / 'cache'
    place.mkdir()
    before = 'os.rename(%r, %r); open(%r, "w").close()' % (str(place), str(place) + '.old',
                                                           str(place))
    output, errors, code = run(tmp_path, POCL[0], before, POCL_CACHE_DIR=str(place),
                               CAFFE_CACHE='off')
    assert code != 0 and 'y [' not in output, output + errors
    message = errors[errors.rindex('caffe.Error' if 'caffe.Error' in errors else 'Error'):]
    for part in ('power', 'POCL_CACHE_DIR', '%s cannot be written' % place):
        assert part in message, errors


@pytest.mark.skipif(caffe.enumerate_devices(True) == 0, reason='there is no device but the CPU')
def test_without_a_home_there_is_one_warning(tmp_path):
    output, errors, code = run(tmp_path, caffe.devices()[0].name)
    assert code == 0 and 'y [6.0, 6.0, 6.0]' in output, output + errors
    assert errors.count('program cache') == 1, errors
    for part in ('CAFFE_CACHE_DIR', 'XDG_CACHE_HOME', 'HOME'):
        assert part in errors, errors
    # No warning for a user who turned it off or does not need it.
    for device, changes in ((caffe.devices()[0].name, dict(CAFFE_CACHE='off')), ('cpu', {})):
        output, errors, code = run(tmp_path, device, **changes)
        assert code == 0 and 'program cache' not in errors, errors
