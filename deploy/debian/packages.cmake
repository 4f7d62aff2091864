# Debian packages, one for each component of the installation (`cpack -G DEB`).
# The build must be configured for /usr, on the distribution and architecture
# that the packages are for: dependencies are read from the libraries there.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME regroup)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
    ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(REGROUP_DEB_MAINTAINER "Regroup maintainers <regroup@example.org>"
    CACHE STRING "Maintainer of the packages, as NAME <ADDRESS>")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${REGROUP_DEB_MAINTAINER})
set(CPACK_COMPONENTS_ALL)
set(RG_DEB_VERSION ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
set(RG_DEB_DIR ${CMAKE_BINARY_DIR}/debian)
set(RG_DEB_SONAME ${PROJECT_VERSION_MAJOR})

set(RG_DEB_ABOUT "Regroup runs jobs whose workers come and go: a program
registers the memory that a step changes, and when a worker dies the others
go back to the last commit, regroup and step on. Beside that, groups of ranks
run collectives side by side, in elastic jobs as well as beside MPI.")

# copyright and changelog, which every package brings.
string(TIMESTAMP RG_DEB_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(deploy/debian/copyright.in ${RG_DEB_DIR}/copyright @ONLY)
configure_file(deploy/debian/changelog.in ${RG_DEB_DIR}/changelog.Debian @ONLY)
execute_process(COMMAND gzip -9nf ${RG_DEB_DIR}/changelog.Debian
                COMMAND_ERROR_IS_FATAL ANY)

# rg_deb(COMPONENT PACKAGE SECTION SUMMARY TEXT [DEPENDS a,b] [RECOMMENDS a]
#        [SUGGESTS a] [ALL] [SHLIBS NAME])
# ALL: the same on every architecture. SHLIBS: it brings the library NAME.
function(rg_deb component package section summary text)
    cmake_parse_arguments(D "ALL" "DEPENDS;RECOMMENDS;SUGGESTS;SHLIBS" ""
                          ${ARGN})
    string(TOUPPER ${component} C)
    macro(say name value)
        set(CPACK_DEBIAN_${C}_${name} "${value}" PARENT_SCOPE)
    endmacro()
    say(PACKAGE_NAME ${package})
    say(PACKAGE_SECTION ${section})
    say(PACKAGE_DEPENDS "${D_DEPENDS}")
    say(PACKAGE_RECOMMENDS "${D_RECOMMENDS}")
    say(PACKAGE_SUGGESTS "${D_SUGGESTS}")
    say(DESCRIPTION "${summary}\n${RG_DEB_ABOUT}\n.\n${text}")
    if(D_ALL)
        say(PACKAGE_ARCHITECTURE all)
    else()
        say(PACKAGE_SHLIBDEPS ON)
    endif()
    if(D_SHLIBS)
        file(WRITE ${RG_DEB_DIR}/${component}/shlibs
             "${D_SHLIBS} ${RG_DEB_SONAME} ${package} (>= ${PROJECT_VERSION})\n")
        file(WRITE ${RG_DEB_DIR}/${component}/triggers
             "activate-noawait ldconfig\n")
        say(PACKAGE_CONTROL_EXTRA
            "${RG_DEB_DIR}/${component}/shlibs;${RG_DEB_DIR}/${component}/triggers")
    endif()
    install(FILES ${RG_DEB_DIR}/copyright ${RG_DEB_DIR}/changelog.Debian.gz
            COMPONENT ${component} DESTINATION share/doc/${package})
    set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${component} PARENT_SCOPE)
endfunction()

set(library libregroup${RG_DEB_SONAME})
rg_deb(library ${library} libs "elastic jobs and process sets: the library"
    "This package has the library that programs are linked with."
    SHLIBS libregroup SUGGESTS regroup)
rg_deb(dev libregroup-dev libdevel
    "elastic jobs and process sets: for building programs"
    "This package has the header, and how CMake and pkg-config find the library."
    DEPENDS "${library} (= ${RG_DEB_VERSION})" RECOMMENDS pkgconf
    SUGGESTS "libregroup-mpi-openmpi-dev, libregroup-mpi-mpich-dev")
rg_deb(tools regroup admin
    "elastic jobs and process sets: launcher and agent"
    "This package has the command regroup, a systemd unit for the agent of a
host, the documentation and the examples."
    RECOMMENDS etcd-server SUGGESTS "libregroup-dev, python3-regroup")
if(TARGET regroup_fast) # where the package looks for it
    set(is_all "")
    install(TARGETS regroup_fast COMPONENT python
            DESTINATION lib/python3/dist-packages/regroup/lib)
else()
    set(is_all ALL)
endif()
rg_deb(python python3-regroup python
    "elastic jobs and process sets: the Python package"
    "This package has the module regroup for Python 3."
    ${is_all} DEPENDS "python3 (>= 3.10), ${library} (>= ${PROJECT_VERSION})"
    RECOMMENDS "python3-numpy, regroup" SUGGESTS python3-mpi4py)
install(DIRECTORY sdk/python/regroup COMPONENT python
        DESTINATION lib/python3/dist-packages
        PATTERN __pycache__ EXCLUDE)
foreach(flavour IN LISTS RG_MPI_FLAVOURS)
    set(package libregroup-mpi-${flavour})
    rg_deb(mpi_${flavour} ${package}${RG_DEB_SONAME} libs
        "elastic jobs and process sets: beside ${flavour}"
        "This package has the library for programs that use Regroup beside MPI."
        DEPENDS "${library} (= ${RG_DEB_VERSION})"
        SHLIBS libregroup_mpi-${flavour})
    rg_deb(mpi_${flavour}_dev ${package}-dev libdevel
        "elastic jobs and process sets: for building beside ${flavour}"
        "This package has what CMake and pkg-config need to find the library."
        DEPENDS "${package}${RG_DEB_SONAME} (= ${RG_DEB_VERSION}), libregroup-dev (= ${RG_DEB_VERSION})")
endforeach()

include(CPack)
