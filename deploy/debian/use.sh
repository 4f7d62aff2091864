#!/bin/sh
# In a clean Debian, as root, in a tree with packages in build/deb: install
# them, compile and run programs with them, and remove them again.
set -eu

install() { apt-get -qq install -y --no-install-recommends "$@" >/tmp/apt.log 2>&1 || { cat /tmp/apt.log && exit 1; }; }
deb() { for name; do ls "$PWD"/build/deb/"${name}"_*.deb; done; }
step() { echo "== $*"; }

apt-get -qq update
step "a program of C, by pkg-config, as an ordinary user"
install $(deb libregroup0 libregroup-dev regroup) etcd-server gcc libc6-dev pkgconf
id user >/dev/null 2>&1 || useradd --create-home user
cat >/home/user/build.sh <<'E2'
set -eu
cd
docs=/usr/share/doc/regroup/examples
flags=$(pkg-config --cflags --libs regroup)
case "$flags" in *rpath*) echo "a runpath in /usr: $flags" && exit 1 ;; esac
cc $docs/01_hello.c -o hello $flags
cc $docs/03_elastic_digits.c -o digits $flags -lm
./hello
regroup run -n 3 ./hello
regroup run --min 1 --max 2 ./digits --data $docs/data/digits.csv --steps 200 | tail -n 2
regroup doctor
E2
su user -c 'sh ~/build.sh'

step "the library alone is enough to run it"
apt-get -qq purge -y libregroup-dev >/dev/null 2>&1
su user -c ./hello -s /bin/sh 2>/dev/null || su - user -c ./hello

step "the Python package"
install $(deb python3-regroup) python3-numpy
su - user -c 'regroup run -n 2 python3 /usr/share/doc/regroup/examples/python/01_hello.py'
su - user -c 'python3 -c "import regroup; assert regroup._sets.fast is not None"'

for mpi in openmpi mpich; do
    [ -n "$(ls build/deb/libregroup-mpi-"$mpi"0_*.deb 2>/dev/null)" ] || continue
    step "beside $mpi, by its mpicc"
    case $mpi in openmpi) more="openmpi-bin libopenmpi-dev" ;; mpich) more="mpich libmpich-dev" ;; esac
    install $(deb libregroup-dev "libregroup-mpi-${mpi}0" "libregroup-mpi-$mpi-dev") $more
    su - user -c "mpicc.$mpi -DWITH_REGROUP /usr/share/doc/regroup/examples/04_halo.c -o halo \$(pkg-config --cflags --libs regroup_mpi-$mpi) -lm"
    su - user -c "env OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe mpirun.$mpi -n 2 ./halo" | tail -n 1
done

step "the unit of the agent"
install systemd
systemd-analyze verify --man=no regroup-agent@.service

step "removed without a trace"
apt-get -qq purge -y 'libregroup*' regroup python3-regroup >/dev/null 2>&1
left=$(find /usr /etc /var/lib -name '*regroup*' ! -path '/var/lib/apt/*' ! -path '/var/lib/dpkg/*' ! -path '/var/lib/systemd/*')
[ -z "$left" ] || { echo "left behind: $left" && exit 1; }
step "all of it works"
