"""What watches every test for misbehaviour that its assertions would not see."""
