# Pushes files with RubyGems' own command, in one process: `push_gems.rb HOST FILE..`
require "rubygems/commands/push_command"

host, *files = ARGV
files.each { |file| Gem::Commands::PushCommand.new.invoke("--host", host, file) }
