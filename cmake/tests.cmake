# The tests: tests/<floor>/test_<file>.c tests src/<floor>/<file>.c and is one program and one test of
# ctest; what they share is in tests/support/. tests/repository/ holds shell scripts that test the
# repository itself: its checks, what the library exports, what an installed prefix holds.
file(GLOB_RECURSE KVSHELF_TESTS CONFIGURE_DEPENDS tests/test_*.c)
file(GLOB KVSHELF_TEST_SUPPORT CONFIGURE_DEPENDS tests/support/*.c)
foreach(source ${KVSHELF_TESTS})
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(floor ${source} DIRECTORY)
  get_filename_component(floor ${floor} NAME)
  set(target ${floor}_${name})
  add_executable(${target} ${source} ${KVSHELF_TEST_SUPPORT})
  target_link_libraries(${target} PRIVATE kvshelf_objects PkgConfig::CMOCKA m)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  if(JSONC_FOUND)
    target_link_libraries(${target} PRIVATE PkgConfig::JSONC)
  endif()
  if(floor STREQUAL "server" AND TARGET kvshelf_server_objects)
    target_link_libraries(${target} PRIVATE kvshelf_server_objects)
  endif()
  if(floor STREQUAL "cli")
    target_link_libraries(${target} PRIVATE kvshelf_cli_objects
      $<TARGET_NAME_IF_EXISTS:kvshelf_server_objects>)
    if(TARGET kvshelf)
      add_dependencies(${target} kvshelf) # some run the program, which is beside them
    endif()
  endif()
  add_test(NAME ${floor}/${name} COMMAND ${target} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
endforeach()

# The model test at length; its report is printed. `ninja -C build/release model-test-long`
if(TARGET catalog_test_model)
  add_custom_target(model-test-long USES_TERMINAL
    COMMAND catalog_test_model --seed 1000000 --operations 20000000)
endif()

file(GLOB KVSHELF_REPOSITORY_TESTS CONFIGURE_DEPENDS tests/repository/test_*.sh)
foreach(source ${KVSHELF_REPOSITORY_TESTS})
  get_filename_component(name ${source} NAME_WE)
  add_test(NAME repository/${name} COMMAND ${source} ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  set_tests_properties(repository/${name} PROPERTIES SKIP_RETURN_CODE 77
    ENVIRONMENT "CC=${CMAKE_C_COMPILER};CFLAGS=${CMAKE_C_FLAGS}")
endforeach()
