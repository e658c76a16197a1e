"""The options of programs: which run another one, which write or read a file, which only take a value.

A program is here when some of its options run others or write where its name does not say, or when the files in them
matter to rules about files. `git` has a table of its own (`git_commands`), of what is safe.
"""

from collections.abc import Mapping

from agentcore.permissions.options import Kind, Options


def _options(
    *,
    runs: str = "",
    writes: str = "",
    makes: str = "",
    reads: str = "",
    folder: str = "",
    takes: str = "",
    single: bool = False,
    bundled: bool = False,
) -> Options:
    """Each a list of options; `!` behind one: without a value."""
    kinds, flags = dict[str, Kind](), set[str]()
    lists = (
        (Kind.TAKES, takes),
        (Kind.READS, reads),
        (Kind.FOLDER, folder),
        (Kind.MAKES, makes),
        (Kind.WRITES, writes),
        (Kind.RUNS, runs),
    )
    for kind, text in lists:
        for word in text.split():
            option = word.removesuffix("!")
            kinds[option] = kind
            if option != word:
                flags.add(option)
    return Options(kinds, frozenset(flags), single, bundled)


_GREP = _options(reads="-f --file --exclude-from", takes="-e -A -B -C -m -D -d --regexp --include --exclude")
_AWK = _options(
    reads="-f --file -E --exec",
    makes="-o -p -d --pretty-print --profile --dump-variables",
    takes="-i -l --include --load -v -F --assign --field-separator",
)
_COMPILER = _options(
    single=True,
    runs="-wrapper -fplugin -B -specs --specs -Xclang -load -fuse-ld",
    makes="-o -MF",
    takes="-I -L -D -x -include",
)
_SSH_COPY = _options(runs="-o -F -S -D", reads="-i", takes="-c -J -l -P -X")

OPTIONS: Mapping[str, Options] = {
    "awk": _AWK,
    "bat": _options(runs="--pager --config-file", takes="-l -H -r --language --style"),
    "cargo": _options(
        runs="--config", folder="-C", makes="--target-dir", takes="-p -j -F --package --features --manifest-path"
    ),
    "cc": _COMPILER,
    "clang": _COMPILER,
    "cmake": _options(runs="-E -P -C", folder="-S -B --build", takes="-D -G -A -T -j"),
    "cp": _options(makes="-t --target-directory", takes="-S --suffix --sparse --reflink --context"),
    "curl": _options(
        runs="-K --config --engine",
        writes="-o --output -O! --remote-name! --remote-name-all! -J! --remote-header-name! --output-dir"
        " -D --dump-header"
        " -c --cookie-jar --libcurl --stderr --etag-save --trace --trace-ascii --hsts --alt-svc",
        reads="-T --upload-file --netrc-file --cacert --capath -E --cert --key --pubkey -d --data"
        " --data-ascii --data-raw"
        " --data-binary --data-urlencode --json -F --form -b --cookie --etag-compare --url-query --variable",
        takes="-A -e -H -X -m -u -x -U -w -y -Y -z -r -C -P -Q -t --user-agent --referer --header"
        " --request --max-time"
        " --user --proxy --proxy-user --write-out --range --continue-at --connect-timeout --retry --url --resolve"
        " --unix-socket --interface --limit-rate --max-redirs --cert-type --key-type --data-urlencode --form-string",
    ),
    "cut": _options(takes="-d -f -c -b --delimiter --fields --characters --bytes --output-delimiter"),
    "date": _options(runs="-s --set", reads="-f --file -r --reference", takes="-d --date"),
    "dd": _options(),
    "delta": _options(runs="--pager --config"),
    "diff": _options(
        reads="--from-file --to-file -X --exclude-from",
        takes="-U -C -I -F -L -W -x --label --exclude --ignore-matching-lines",
    ),
    "docker": _options(
        runs="--config -H --host --tlscacert --tlscert --tlskey", reads="--env-file", takes="--context -l --log-level"
    ),
    "eslint": _options(
        runs="--rulesdir --resolve-plugins-relative-to --plugin --parser -c --config -f --format --rule --env",
        writes="-o --output-file --cache-location --cache-file",
        takes="--ext --max-warnings --ignore-pattern",
    ),
    "fd": _options(
        runs="-x -X --exec --exec-batch",
        folder="--base-directory -C",
        reads="--ignore-file",
        takes="-e -E -t -d -S -c -j -o -p --extension --exclude --type --max-depth --size --color --threads",
    ),
    "find": _options(
        single=True,
        runs="-exec -execdir -ok -okdir -delete!",
        writes="-fprint -fprint0 -fprintf -fls",
        reads="-files0-from -newer -anewer -cnewer -samefile",
        takes="-name -iname -path -ipath -type -size -mtime"
        " -maxdepth -mindepth -regex -iregex -perm -user -group -printf -mmin -newermt -links -lname",
    ),
    "fzf": _options(runs="--preview --bind --execute --listen --become", takes="-q -f --query --filter"),
    "g++": _COMPILER,
    "gcc": _COMPILER,
    "gh": _options(takes="-R --repo"),
    "go": _options(
        single=True,
        runs="-exec -toolexec -ldflags -gcflags -asmflags -gccgoflags -vettool -overlay -modfile -C -w! -u!",
        makes="-o -coverprofile -cpuprofile -memprofile -blockprofile -mutexprofile -trace -outputdir",
        takes="-run -bench -count -timeout -tags -p -mod -parallel -benchtime -covermode -coverpkg",
    ),
    "gradle": _options(
        runs="-I --init-script -c --settings-file -g --gradle-user-home", folder="-p --project-dir", takes="-P -D -x -b"
    ),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "head": _options(takes="-n -c --lines --bytes"),
    "helm": _options(runs="--post-renderer --kubeconfig", takes="-n --namespace --kube-context"),
    "hg": _options(runs="--config", folder="-R --repository --cwd"),
    "history": _options(writes="-a! -n! -r! -w!", takes="-d"),
    "install": _options(
        makes="-t --target-directory", runs="--strip-program", takes="-m -o -g -S --mode --owner --group"
    ),
    "journalctl": _options(
        runs="--vacuum-size --vacuum-time --vacuum-files --rotate! --setup-keys!  --flush! --relinquish-var!"
        " --update-catalog!",
        writes="--cursor-file",
        folder="-D --directory --root",
        takes="-u -n -o -p -S -U --unit --lines --output",
    ),
    "jq": _options(reads="-f --from-file --rawfile --slurpfile -L", takes="--arg --argjson --indent"),
    "kubectl": _options(
        runs="--kubeconfig",
        reads="-f --filename -k --kustomize",
        takes="-n --namespace --context --cluster --user -s --server --token --as -l --selector -o"
        " --output -c --container",
    ),
    "less": _options(
        runs="-k --lesskey-file --lesskey-src --lesskey-content",
        writes="-o -O --log-file --LOG-FILE",
        takes="-p -P -x -j",
    ),
    "ln": _options(makes="-t --target-directory", takes="-S --suffix"),
    "make": _options(
        runs="-f --file --makefile -I --include-dir -E! --eval",
        folder="-C --directory",
        takes="-l -o -W --load-average --old-file --what-if --assume-new --assume-old --new-file",
    ),
    "man": _options(
        runs="-P --pager -H --html -C --config-file --browser", folder="-M --manpath", takes="-S -s -L -m -e --sections"
    ),
    "more": _options(takes="-n --lines"),
    "mv": _options(makes="-t --target-directory", takes="-S --suffix"),
    "mysql": _options(
        runs="-e --execute --pager --plugin-dir --init-command",
        writes="--tee",
        reads="--defaults-file --defaults-extra-file",
        takes="-u -h -P -D --user --host --port --database",
    ),
    "ninja": _options(runs="-f -t", folder="-C", takes="-j -k -l"),
    "nmap": _options(runs="--script --datadir", writes="-oN -oX -oG -oA"),
    "node": _options(reads="--env-file"),
    "npm": _options(
        runs="--script-shell --node-options --globalconfig --userconfig --init-module --git --editor"
        " --shell --viewer -c --call",
        folder="--prefix -C",
        takes="-w --workspace --loglevel --registry --tag",
    ),
    "openssl": _options(
        single=True,
        runs="-engine -provider -provider-path -config",
        makes="-out -keyout",
        reads="-in -inkey -CAfile -kfile",
    ),
    "patch": _options(
        makes="-o --output -r --reject-file",
        reads="-i --input",
        folder="-d --directory",
        takes="-p -F -z -B -Y --strip --get -g",
    ),
    "pip": _options(
        runs="--config-settings -C --python --global-option --build-option --install-option",
        writes="--log",
        makes="-t --target -d --dest",
        reads="-r --requirement -c --constraint -e --editable",
        takes="-i -f --index-url --extra-index-url",
    ),
    "pnpm": _options(
        runs="--script-shell --shell-emulator -c! --shell-mode!",
        folder="--dir -C",
        takes="-F --filter --reporter --loglevel",
    ),
    "prettier": _options(runs="--plugin --config", reads="--ignore-path"),
    "printf": _options(runs="-v"),
    "psql": _options(
        writes="-o --output -L --log-file",
        reads="-f --file",
        takes="-c -d -h -p -U -v -F -P -R -T --command --dbname --host --port --username",
    ),
    "rg": _options(
        runs="--pre --hostname-bin -z! --search-zip!",
        reads="-f --file --ignore-file",
        takes="-e -g -t -T -A -B -C -m -d -j -M -r -E --regexp --glob --iglob --type --type-not --max-count --max-depth"
        " --context --after-context --before-context --replace --sort --color --colors --threads"
        " --engine --path-separator",
    ),
    "rsync": _options(
        runs="-e --rsh --rsync-path -M --remote-option",
        writes="--log-file --write-batch --only-write-batch -T --temp-dir --backup-dir --partial-dir",
        reads="--files-from --exclude-from --include-from --password-file --read-batch",
        takes="-f -B --filter --exclude --include --chmod --max-size --bwlimit --timeout --port",
    ),
    "scp": _SSH_COPY,
    "sed": _options(takes="-e --expression -l --line-length", reads="-f --file"),
    "sftp": _options(runs="-o -F -S -D -b", reads="-i", takes="-B -c -J -l -P -R -s -X"),
    "sort": _options(
        runs="--compress-program",
        writes="-o --output -T --temporary-directory",
        reads="--files0-from --random-source",
        takes="-k -t -S --key --field-separator --buffer-size --parallel --batch-size",
    ),
    "split": _options(
        runs="--filter", takes="-a -b -C -l -n --bytes --lines --number --suffix-length --additional-suffix"
    ),
    "sqlite3": _options(single=True, runs="-cmd -init -A -append", takes="-separator -nullvalue -newline -mmap"),
    "ssh": _options(
        runs="-o -F -I", writes="-E", reads="-i -S", takes="-b -B -c -D -e -J -L -l -m -O -p -P -Q -R -W -w"
    ),
    "svn": _options(
        runs="--config-option --config-dir --diff-cmd --diff3-cmd --editor-cmd",
        reads="-F --file",
        takes="-m -r --message --revision",
    ),
    "tail": _options(takes="-n -c -s --lines --bytes --pid --sleep-interval"),
    "tar": _options(
        bundled=True,
        runs="-I -F --use-compress-program --to-command --checkpoint-action --info-script --new-volume-script"
        " --rsh-command --rmt-command",
        writes="-g --listed-incremental --index-file --volno-file",
        makes="-f --file",
        reads="-T --files-from -X --exclude-from",
        folder="-C --directory --cd",
        takes="-b -H -K -L -N -V --format --exclude --transform --xform --strip-components --owner --group --mode",
    ),
    "tcpdump": _options(
        runs="-z --postrotate-command", writes="-w", takes="-i -c -s -r -F -y -C -G -W -B -Z -E -T -D -M"
    ),
    "tee": _options(takes="--output-error"),
    "terraform": _options(single=True, folder="-chdir", takes="-var -target"),
    "test": _options(runs="-v -R"),
    "touch": _options(reads="-r --reference", takes="-d -t --date --time"),
    "truncate": _options(reads="-r --reference", takes="-s --size"),
    "unzip": _options(makes="-d", takes="-x -P"),
    "wget": _options(
        runs="--use-askpass --config -e --execute",
        writes="-O --output-document -o --output-file -a"
        " --append-output -P --directory-prefix --save-cookies --rejected-log"
        " --warc-file --warc-tempdir --warc-cdx! --hsts-file",
        reads="-i --input-file --post-file --body-file --load-cookies --ca-certificate --certificate --private-key",
        takes="-t -T -w -Q -U -A -R -D -I -X -l --header --user --password --post-data --timeout --tries --user-agent",
    ),
    "xxd": _options(writes="-r!", takes="-c -g -l -o -s"),
    "yarn": _options(runs="--script-shell --use-yarnrc", folder="--cwd", takes="--registry --network-timeout"),
    "yq": _options(writes="-i! --inplace! -s --split-exp", reads="--from-file"),
    "zip": _options(
        runs="-T! -TT --unzip-command --test!", writes="-b -O --output-file --temp-path", takes="-i -x -n -P"
    ),
}

ALIASES: Mapping[str, str] = {
    "gawk": "awk", "mawk": "awk", "nawk": "awk", "gsed": "sed", "gtar": "tar", "bsdtar": "tar", "gmake": "make",
    "pip3": "pip", "clang++": "clang", "c++": "g++", "podman": "docker", "ripgrep": "rg", "fdfind": "fd",
    "batcat": "bat",
    "mariadb": "mysql", "gfind": "find", "gsort": "sort", "gdate": "date", "tofu": "terraform", "nodejs": "node",
}  # fmt: skip


def options_of(name: str | None) -> Options | None:
    """The table of a program; None for one without."""
    return None if name is None else OPTIONS.get(ALIASES.get(name, name))
