"""The facts about machine and code that a report starts with."""
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def processor():
    with open('/proc/cpuinfo') as file:
        facts = dict(line.split(':', 1) for line in file.read().split('\n\n')[0].splitlines())
    facts = {key.strip(): value.strip() for key, value in facts.items()}
    flags = facts.get('flags', '').split()
    best = next((flag for flag in ('avx512f', 'avx2', 'sse4_2') if flag in flags), '')
    best = ', '.join([best] + [flag for flag in ('avx512_bf16', 'avx512_fp16', 'amx_bf16')
                               if flag in flags])
    return '%s (%s)' % (facts.get('model name', 'processor'), best)


def write_report(text, path):
    """Prints a report and, if a path is given, writes it there."""
    print(text, end='')
    if path:
        with open(path, 'w') as file:
            file.write(text)


def commit(folder=ROOT):
    answer = subprocess.run(['git', '-C', folder, 'describe', '--always', '--dirty'],
                            capture_output=True, text=True)
    return answer.stdout.strip() or 'not a checkout'
