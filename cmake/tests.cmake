# The tests: tests/<floor>/test_<file>.c tests src/<floor>/<file>.c and is one program and one test of
# ctest; what they share is in tests/support/. tests/repository/ holds shell scripts that test the
# repository itself: its checks, what the library exports, what an installed prefix holds.
# An archive, so that each test gets the helpers it uses and no others.
file(GLOB KVSHELF_TEST_SUPPORT CONFIGURE_DEPENDS tests/support/*.c)
if(KVSHELF_TEST_SUPPORT)
  add_library(kvshelf_test_support STATIC ${KVSHELF_TEST_SUPPORT})
  target_link_libraries(kvshelf_test_support PRIVATE kvshelf_flags PkgConfig::CMOCKA PkgConfig::ISAL
    PkgConfig::XXHASH PkgConfig::CRYPTO PkgConfig::URING $<TARGET_NAME_IF_EXISTS:kvshelf_llhttp>)
  target_include_directories(kvshelf_test_support PRIVATE ${CMAKE_SOURCE_DIR}/tests)
endif()

file(GLOB_RECURSE KVSHELF_TESTS CONFIGURE_DEPENDS tests/test_*.c)
foreach(source ${KVSHELF_TESTS})
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(floor ${source} DIRECTORY)
  get_filename_component(floor ${floor} NAME)
  set(target ${floor}_${name})
  add_executable(${target} ${source})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE $<TARGET_NAME_IF_EXISTS:kvshelf_test_support> kvshelf_objects
    PkgConfig::CMOCKA m)
  if(JSONC_FOUND)
    target_link_libraries(${target} PRIVATE PkgConfig::JSONC)
  endif()
  # Tests of the remote client run against the server.
  if(floor STREQUAL "server" OR floor STREQUAL "cli" OR name MATCHES "remote")
    target_link_libraries(${target} PRIVATE $<TARGET_NAME_IF_EXISTS:kvshelf_server_objects>)
  endif()
  if(floor STREQUAL "cli")
    target_link_libraries(${target} PRIVATE kvshelf_cli_objects)
  endif()
  if(TARGET kvshelf AND (floor STREQUAL "cli" OR floor STREQUAL "soak"))
    add_dependencies(${target} kvshelf) # some run the program, which is beside them
  endif()
  add_test(NAME ${floor}/${name} COMMAND ${target} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
endforeach()

# The model test at length; its report is printed. `ninja -C build/release model-test-long`
if(TARGET catalog_test_model)
  add_custom_target(model-test-long USES_TERMINAL
    COMMAND catalog_test_model --seed 1000000 --operations 20000000)
endif()

# The same for kills: `ninja -C build/release kill-test-long`
if(TARGET kill_test_kill)
  add_custom_target(kill-test-long USES_TERMINAL COMMAND kill_test_kill --kills 400 --seed 1)
endif()

# And over a whole store: `ninja -C build/release store-kill-test-long`
if(TARGET store_test_kill)
  add_custom_target(store-kill-test-long USES_TERMINAL COMMAND store_test_kill --kills 200 --seed 1)
endif()

# Storage that misbehaves under load, again and again: `ninja -C build/release store-storage-long`
if(TARGET store_test_storage)
  add_custom_target(store-storage-long USES_TERMINAL COMMAND store_test_storage --rounds 50)
endif()

# Ten million reads of pages that another process writes: `ninja -C build/release store-hammer-long`
if(TARGET store_test_remote_hammer)
  add_custom_target(store-hammer-long USES_TERMINAL COMMAND store_test_remote_hammer --reads 10000000)
endif()

# Calls over a network that is slow, loses packets and is cut: `ninja -C build/release network-measure`
if(TARGET soak_test_network)
  set_tests_properties(soak/test_network PROPERTIES SKIP_RETURN_CODE 77)
  add_custom_target(network-measure USES_TERMINAL COMMAND soak_test_network --measure
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
endif()

file(GLOB KVSHELF_REPOSITORY_TESTS CONFIGURE_DEPENDS tests/repository/test_*.sh)
foreach(source ${KVSHELF_REPOSITORY_TESTS})
  get_filename_component(name ${source} NAME_WE)
  add_test(NAME repository/${name} COMMAND ${source} ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  set_tests_properties(repository/${name} PROPERTIES SKIP_RETURN_CODE 77
    ENVIRONMENT "CC=${CMAKE_C_COMPILER};CFLAGS=${CMAKE_C_FLAGS}")
endforeach()

if(TARGET kvshelf)
  add_test(NAME server/conformance COMMAND ${CMAKE_SOURCE_DIR}/tests/server/conformance.sh
    ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  # COST: it waits more than it works, so it begins first and the others run beside it.
  set_tests_properties(server/conformance PROPERTIES SKIP_RETURN_CODE 77 COST 100)
  find_program(KVSHELF_PYTHON python3)
  if(KVSHELF_PYTHON)
    add_test(NAME server/protocol COMMAND ${KVSHELF_PYTHON} ${CMAKE_SOURCE_DIR}/tests/server/protocol.py
      $<TARGET_FILE:kvshelf> WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
    add_test(NAME server/turns COMMAND ${KVSHELF_PYTHON} ${CMAKE_SOURCE_DIR}/tests/server/turns.py
      $<TARGET_FILE:kvshelf> WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
    add_test(NAME server/kill COMMAND ${KVSHELF_PYTHON} ${CMAKE_SOURCE_DIR}/tests/server/kill.py
      $<TARGET_FILE:kvshelf> 4 WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
    add_test(NAME metadata/tls COMMAND ${KVSHELF_PYTHON} ${CMAKE_SOURCE_DIR}/tests/metadata/tls.py
      $<TARGET_FILE:kvshelf> WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
    set_tests_properties(metadata/tls PROPERTIES SKIP_RETURN_CODE 77)
    # `ninja -C build/release server-kill-test-long`
    add_custom_target(server-kill-test-long USES_TERMINAL COMMAND ${KVSHELF_PYTHON}
      ${CMAKE_SOURCE_DIR}/tests/server/kill.py $<TARGET_FILE:kvshelf> 200 1)
  endif()
endif()

include(cmake/sim.cmake)
include(cmake/hammer.cmake)
