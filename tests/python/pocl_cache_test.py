"""Read-only disks: PoCL compiles by way of files, Cortado keeps programs; neither needs a home."""
import os
import re
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
